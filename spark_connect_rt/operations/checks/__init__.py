"""Checks of configurations that reach out: each line by itself, in parallel, within its time."""
