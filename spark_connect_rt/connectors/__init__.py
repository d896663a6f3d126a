"""Bundled connectors: ``sql http files lakehouse topics mirror spark python_sources external_process samples``.

Owns the reading and writing of their tasks. A folder sees ``api``, ``config``, ``base`` and its own client libraries;
it must not see the runtime, and no other folder but the one it extends (``mirror`` extends ``topics``).
"""
