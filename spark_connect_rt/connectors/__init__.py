"""Bundled connectors, a wing for each other end: ``sql http files topics mirror spark python_world programs samples``.

Owns what tasks read and write there. A wing sees ``api``, ``config``, ``mirror``, ``security`` and its own client
libraries; it must not see the runtime, and no other wing but the one it extends (``mirror`` extends ``topics``).
"""
