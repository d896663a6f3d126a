"""The three stores from outside of a worker: shown, checked, backed up, changed.

Owns what ``connectrt store`` and ``connectrt offsets`` do, and how stored connectors are found. Starts no worker.
"""
