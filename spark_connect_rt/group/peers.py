"""HTTP between workers: forwarding, and signed internal requests (Java ``RestClient``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class PeerAnswer:
    """What the other worker answered, whatever the status."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


class PeerClient(Protocol):
    """Sends one request to another worker. Any thread; blocks."""

    def request(
        self,
        method: str,
        url: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_ms: int = 90_000,
    ) -> PeerAnswer:
        """Return the answer. Raises UnreachableError (nothing was sent), RetriableError, TimedOutError."""

    def close(self) -> None:
        """Close the connections."""
