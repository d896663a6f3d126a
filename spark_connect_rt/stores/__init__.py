"""Fold over a compacted log = a readable store: config, status, offset."""
