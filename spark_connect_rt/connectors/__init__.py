"""Bundled connectors, a wing for each kind of other end: ``sql http files topics mirror spark samples python_world``.

Owns what tasks read and write there. A wing sees ``api``, ``config``, ``mirror``, ``security`` and its own client
libraries; it must not see the runtime, and no other wing but the one it extends (``mirror`` extends ``topics``).
"""
