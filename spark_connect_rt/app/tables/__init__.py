"""The cluster's topics as tables for Spark: connectors, tasks, offsets, dead letters.

Owns their columns. Must not start a worker.
"""
