"""For tests of connectors, users' and our own: harnesses, and every port in memory.

Owns ``SourceHarness``, ``SinkHarness``, the in-memory ports and a cluster of real herders and workers in one process on
them. Must not start a process or need a server: such test code is in ``tests/support`` and not in the wheel.
"""
