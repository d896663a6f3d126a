"""The subcommands of ``connectrt``: they parse, call, print, and end with an exit code.

Owns names and options of commands. Must not do their work: the other wings and the worker do.
"""
