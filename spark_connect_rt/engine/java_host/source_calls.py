"""The frames of one source task in a JVM, and the room it has for polls.

Owns what came and is not served yet: frames in their order, then the JVM's end. Any frame wakes the task's thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from spark_connect_rt.api.records import RecordMetadata
from spark_connect_rt.engine.java_host.heartbeats import OnMeter
from spark_connect_rt.engine.java_host.jvm_pool import HostedNumber
from spark_connect_rt.engine.java_host.process import JavaHostGoneError
from spark_connect_rt.engine.java_host.wire import Frame, ToJava
from spark_connect_rt.records.pipeline.delivery_runs import metadata_runs

MOST_POLLS, FEWEST_POLLS = 16, 2  # granted ahead
AHEAD_BYTES = 4 << 20  # as far as it is known how large a poll is


@dataclass(frozen=True, slots=True)
class _Gone:
    reason: str


class SourceCalls(OnMeter):
    """What crosses for one task. The task's thread, but for ``on_frame`` and ``on_gone``."""

    def __init__(self, wake: Callable[[], None]) -> None:
        """``wake`` is called when something came, on the JVM's thread."""
        self._wake = wake
        self._came: deque[Frame | _Gone] = deque()
        self._jvm: HostedNumber | None = None
        self._granted = 0  # polls that may still come
        self._poll_bytes = 0  # of the poll that comes
        self._most = FEWEST_POLLS
        self._gone = False

    def on_frame(self, frame: Frame) -> None:
        """See jvm_pool.Hosted."""
        self._came.append(frame)
        self._wake()

    def on_gone(self, reason: str) -> None:
        """See jvm_pool.Hosted."""
        self._came.append(_Gone(reason))
        self._wake()

    def begin(self, jvm: HostedNumber) -> None:
        """Speak to this JVM from now on."""
        self._jvm = jvm

    @property
    def has_jvm(self) -> bool:
        """Whether there is one that lives, as far as is known."""
        return self._jvm is not None and not self._gone

    def next(self) -> Frame | None:
        """Return the next frame, None: there is none yet. Raises JavaHostGoneError."""
        if not self._came:
            return None
        frame = self._came.popleft()
        if isinstance(frame, _Gone):
            self._gone = True
            raise JavaHostGoneError(f"the Java host is gone: {frame.reason}")
        return frame

    def send(self, kind: ToJava, head: Any = None) -> None:
        """Send a frame. Raises JavaHostGoneError."""
        assert self._jvm is not None
        self._jvm.send(kind, head)

    def taken(self, data_bytes: int, *, poll_ends: bool) -> None:
        """Take note of a batch that was handed over: there is room for more."""
        self._poll_bytes += data_bytes
        if poll_ends:
            self._granted -= 1
            self._most = max(FEWEST_POLLS, min(MOST_POLLS, AHEAD_BYTES // max(1, self._poll_bytes)))
            self._poll_bytes = 0

    def grant(self) -> None:
        """Let the task poll, some polls ahead."""
        if self._granted <= self._most // 2:
            self.send(ToJava.ROOM, self._most - self._granted)
            self._granted = self._most

    def call_back(self) -> None:
        """Let it poll no more, until ``grant``; IDLE says that no poll is under way."""
        self.send(ToJava.ROOM, 0)
        self._granted = 0

    def stacks(self, task: object, limit_s: float) -> str:
        """Return what the task's threads are doing."""
        assert self._jvm is not None
        threads = [stack for kind in ("task", "commit") for stack in self._jvm.stacks(f"{kind}-{task}", limit_s)]
        return "\n".join(f"{thread['thread']}\n    " + "\n    ".join(thread["stack"]) for thread in threads)

    def kill(self, reason: str) -> None:
        """End the JVM; its other tasks are lost, too, and hosted again."""
        assert self._jvm is not None
        self._gone = True
        self._jvm.kill_jvm(reason)

    def release(self) -> None:
        """Let the JVM go."""
        if self._jvm is not None:
            self._jvm.release()


# What a JVM's source task sent and is not durable yet: from BATCH rows back to the JVM's own batches. Pure.
#
# A JVM batch becomes some BATCH rows, maybe none; when the last of them is durable, so is the batch.


Segment = tuple[str, int, int]
"""(the topic that the JVM knows, Kafka records, how many of the JVM's records they are)"""


@dataclass(slots=True)
class _Row:
    """One BATCH row: ``rows`` Kafka records, of which the first ``records`` are the task's, the others dead letters."""

    records: int
    rows: int
    segments: Sequence[Segment] = ()  # of a JVM batch's last row
    ends: int = 0  # JVM batches that end with it
    data_bytes: int = 0  # of those batches


class SentFrames:
    """Of one task, in order. The task's thread."""

    def __init__(self) -> None:
        """Start with nothing sent."""
        self.data_bytes = 0  # not durable yet
        self._rows: deque[_Row] = deque()
        self._places: deque[RecordMetadata | None] = deque()  # of a JVM batch that is durable in part

    def __len__(self) -> int:
        return len(self._rows)

    def add(
        self, rows: Sequence[tuple[int, int]], segments: Sequence[Segment], data_bytes: int = 0
    ) -> dict[str, Any] | None:
        """Remember a JVM batch; return the DURABLE head if it is durable at once: nothing of it is sent.

        Args:
            rows: (the task's records, all records) of each BATCH row.
            segments: the task's records of all its rows, in their order.
            data_bytes: how large it is, about.
        """
        if not rows:
            if not self._rows:
                return {"batches": 1, "places": {}}
            self._rows[-1].ends += 1
            return None
        self._rows.extend(_Row(*row) for row in rows)
        last = self._rows[-1]
        last.segments, last.ends, last.data_bytes = segments, 1, data_bytes
        self.data_bytes += data_bytes
        return None

    def add_row(self) -> None:
        """Remember a BATCH row without records, which belongs to no JVM batch."""
        self._rows.append(_Row(0, 0))

    def durable(self, rows: int, metadata: Iterable[RecordMetadata | None]) -> dict[str, Any] | None:
        """Return the DURABLE head now that so many more BATCH rows are durable; None: no JVM batch is.

        Args:
            metadata: of each Kafka record of these rows, in order.
        """
        found = iter(metadata)
        batches, places = 0, dict[str, list[RecordMetadata | None]]()
        for _ in range(min(rows, len(self._rows))):
            row = self._rows.popleft()
            self._places.extend(list(islice(found, row.rows))[: row.records])
            for topic, count, wanted in row.segments:
                taken = [self._places.popleft() for _ in range(min(count, len(self._places)))][:wanted]
                places.setdefault(topic, []).extend(taken + [None] * (wanted - len(taken)))
            if row.ends:
                self._places.clear()
            batches += row.ends
            self.data_bytes -= row.data_bytes
        return {"batches": batches, "places": {t: _runs(ones) for t, ones in places.items()}} if batches else None


def _runs(places: Sequence[RecordMetadata | None]) -> list[tuple[int, int, int, int, str]]:
    """Return [partition, first offset, records, timestamp, topic]; of what no one can read the offset is -1."""
    return [
        (partition, first, count, -1 if timestamp_ms is None else timestamp_ms, topic)
        for topic, partition, first, timestamp_ms, count in metadata_runs(places)
    ]
