"""Transactions of the driver's side for exactly-once sources (KIP-618): shutting producers out, one atomic write.

Implementations: kafka.transactions; testing.memory_transactions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

ProducerProperties = Mapping[str, str]
"""Of a transactional producer, under Java's names, secrets resolved, ``transactional.id`` among them."""


class Transactions(Protocol):
    """Stateless. Any thread; every call blocks."""

    def fence(self, producers: Sequence[ProducerProperties], timeout_ms: int) -> None:
        """Shut out any producer that uses these transactional ids, and abort what they left open.

        Raises TimedOutError, RetriableError, ConnectError (not allowed); then some may not be shut out.
        """

    def write(
        self,
        producer: ProducerProperties,
        topic: str,
        records: Sequence[tuple[bytes, bytes | None]],
        timeout_ms: int,
    ) -> None:
        """Shut out the id's producer, then append all records in one transaction. Raises as ``fence``."""
