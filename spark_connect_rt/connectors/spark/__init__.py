"""Connectors whose work Spark does: any format of Spark as a source, tables as a sink.

Owns their settings; their tasks are markers, and ``engine.formats`` runs the jobs. Must not import Spark.
"""
