"""The user-facing ``format("connectrt")``."""
