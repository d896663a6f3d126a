"""Wiring, signals, command line: the only place that names concrete adapters.

Owns how a worker is put together: distributed and standalone, plug-ins, listeners, logging. Must not decide what a
worker does: ``runtime`` does.
"""
