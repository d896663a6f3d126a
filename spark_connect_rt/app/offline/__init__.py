"""The three stores without a worker: shown, checked, backed up, changed; and as tables for Spark.

Owns what ``connectrt store`` and ``connectrt offsets`` do, and how stored connectors are found. Starts no worker.
"""
