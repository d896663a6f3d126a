"""The command line ``connectrt``: parses, calls, prints, ends with an exit code.

Owns names and options of commands. Must not do their work: the other wings and the worker do.
"""
