"""In-memory twin of ``kafka.writing.fenced_writer``. Passes tests/contract/fenced_writer_contract.py."""

from __future__ import annotations

from collections.abc import Sequence

from spark_connect_rt.errors import ConnectError, RetriableError
from spark_connect_rt.testing.memory_compacted_log import MemoryLogTopic


class MemoryFencedWriter:
    """A FencedWriter over a MemoryLogTopic."""

    def __init__(self, topic: MemoryLogTopic, transactional_id: str) -> None:
        self._topic = topic
        self._transactional_id = transactional_id
        self._epoch = 0  # 0: not claimed

    def claim(self, timeout_ms: int) -> None:
        """Fence every other writer of the transactional id. Raises RetriableError: the broker is unreachable."""
        if not self._topic.reachable:
            raise RetriableError(f"topic {self._topic.name}: broker not reachable")
        if not self._epoch:
            self._epoch = self._topic.claim(self._transactional_id)

    def is_claimed(self) -> bool:
        """Return whether ``write`` may be called."""
        return self._epoch > 0

    def write(self, records: Sequence[tuple[bytes, bytes | None]], timeout_ms: int) -> None:
        """Append all records as one transaction. After an error the claim is given up.

        Raises FencedError: another writer claimed the id. Raises RetriableError: the broker is unreachable or the claim
        missing.
        """
        epoch, self._epoch = self._epoch, 0  # a failed write gives the claim up
        if not epoch:
            raise RetriableError(f"topic {self._topic.name}: {self._transactional_id} is not claimed")
        if not self._topic.reachable:
            raise RetriableError(f"topic {self._topic.name}: broker not reachable")
        try:
            self._topic.write_fenced(records, self._transactional_id, epoch)
        except ConnectError:
            raise
        except Exception as error:
            raise RetriableError(f"topic {self._topic.name}: {error}") from error
        self._epoch = epoch

    def release(self) -> None:
        """Give up the claim without fencing other writers."""
        self._epoch = 0
