"""Wiring, signals, command line: the only place that names concrete adapters.

Owns how a worker is put together (here: distributed and standalone, plug-ins, listeners, logging, exit codes), and the
wings around it: ``commands quickstart stores tables mirror``. Must not decide what a worker does: ``runtime`` does.
"""
