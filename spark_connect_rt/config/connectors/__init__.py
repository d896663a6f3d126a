"""The settings of connectors: common ones, of sources, of sinks, errors, topics, Spark's sources and tables.

Owns names, defaults and checks. Must not know plug-ins: their own settings are declared beside them.
"""
