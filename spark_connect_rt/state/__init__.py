"""Snapshots, folds and state machines. Pure."""
