"""Whether the brokers that a task's clients talk to answer. Clients report it, the host of the task takes it.

A client calls ``lost`` and ``found`` on a thread of its task. They call the function that this thread gave to
``listen``. asyncio's tasks inherit it from the thread that makes them. On other threads nothing happens.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

OnContact = Callable[[str, str], None]
"""Takes the bootstrap servers of a cluster, and why none of its brokers answers; an empty text: one does. Quick."""

_listener: ContextVar[OnContact | None] = ContextVar("cluster_contact", default=None)


def listen(on_contact: OnContact) -> None:
    """Have it called for what clients say on this thread from now on."""
    _listener.set(on_contact)


def lost(servers: str, why: str) -> None:
    """Report that no broker of a cluster answers now; may be called again and again."""
    if (listener := _listener.get()) is not None:
        listener(servers, why or "no answer")


def found(servers: str) -> None:
    """Report that a broker of a cluster answers; may be called again and again."""
    if (listener := _listener.get()) is not None:
        listener(servers, "")
