"""The frame of the command line: sessions with a cluster, contexts, kinds of things, tables, output.

Must not import a worker: a command must start in a moment. Features of ``operations`` bring their own commands.
"""
