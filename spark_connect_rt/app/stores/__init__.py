"""The three stores from outside of a worker: shown, checked, backed up, changed.

Owns what ``connectrt store`` and ``connectrt offsets`` do. Must not write while a worker of the group runs.
"""
