"""Compacted topics read to their end and followed: the three stores' logs, and topics read once.

Owns loads (by several processes too), last records by key, and appends. Must not know what a record means:
``topics`` folds them.
"""
