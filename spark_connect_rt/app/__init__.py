"""Wiring, signals, command line: the only place that names concrete adapters."""
