"""The user-facing ``format("connectrt")`` for reads, writes and streams."""
