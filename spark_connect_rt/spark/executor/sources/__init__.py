"""The source side: the host that polls a task, and the lanes that produce what it polled.

Owns the order of poll, send and commit, and transactions. Must not plan: the driver says which task runs where.
"""
