"""MirrorMaker 2's rules: names, filters, records, what to copy and what to sync. Pure; its clients are elsewhere."""
