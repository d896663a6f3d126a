"""Whole record batches from one cluster to another, without being taken apart.

Owns what of a batch changes on its way, and the requests that carry batches on. ``connectors.mirror`` decides who reads
and why.
"""
