"""A dedicated MirrorMaker: flows between clusters, its REST, its check of what was mirrored.

Owns one process with a worker for each flow. The connectors and their rules are ``connectors.mirror``.
"""
