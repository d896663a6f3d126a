"""In-memory twins of ``kafka.writing.fenced_writer``, and offset topics that a simulated transaction reaches.

Owns: which transactional ids were fenced, in order. MemoryFencedWriter passes
tests/contract/fenced_writer_contract.py. Offsets in a source task's transaction go to the same
MemoryLogTopic that the stores read.
"""

from __future__ import annotations

from collections.abc import Sequence

from spark_connect_rt.api.records import RecordMetadata
from spark_connect_rt.errors import ConnectError, RetriableError
from spark_connect_rt.kafka.interfaces import ProducerProperties
from spark_connect_rt.records.pipeline.delivery_runs import DeliveryRuns
from spark_connect_rt.testing.memory_compacted_log import MemoryLogTopic
from spark_connect_rt.testing.memory_executor_clients import MemoryTopics, Row


class TopicsWithLogs(MemoryTopics):
    """Topics of which some are logs that stores read."""

    def __init__(self) -> None:
        super().__init__()
        self.logs: dict[str, MemoryLogTopic] = {}

    def append(self, rows: Sequence[Row], runs: DeliveryRuns | None = None) -> list[RecordMetadata | None]:
        """Write rows, those of a log into it."""
        for row in rows:
            if row["topic"] in self.logs:
                self.logs[row["topic"]].write([(row["key"], row["value"])])
        written = iter(super().append([row for row in rows if row["topic"] not in self.logs], runs))
        return [None if row["topic"] in self.logs else next(written) for row in rows]


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


class MemoryTransactions:
    """Port Transactions over topics in memory."""

    def __init__(self, topics: TopicsWithLogs) -> None:
        self._topics = topics
        self.fenced: list[str] = []  # transactional ids, in order
        self.refuse: Exception | None = None  # the error that the next ``fence`` raises

    def fence(self, producers: Sequence[ProducerProperties], timeout_ms: int) -> None:
        """Fence the producers, and note their ids in ``fenced``. Raises ``refuse`` once if set."""
        refused, self.refuse = self.refuse, None
        if refused is not None:
            raise refused
        for producer in producers:
            self._topics.claim(producer["transactional.id"])
            self.fenced.append(producer["transactional.id"])

    def write(
        self,
        producer: ProducerProperties,
        topic: str,
        records: Sequence[tuple[bytes, bytes | None]],
        timeout_ms: int,
    ) -> None:
        """Claim the producer's transactional id and append the records."""
        self._topics.claim(producer["transactional.id"])
        self._topics.append([{"topic": topic, "key": key, "value": value} for key, value in records])
