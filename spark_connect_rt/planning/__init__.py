"""Facts to actions: what to start, stop, restart, pack. Pure."""
