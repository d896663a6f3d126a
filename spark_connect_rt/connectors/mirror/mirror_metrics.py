"""What a MirrorSource task measures of each partition it copies (Java ``MirrorSourceMetrics``).

Owns the names and what they mean. A batch is timed by its first and its last record, not by each of them.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from spark_connect_rt.api.records import Delivered
from spark_connect_rt.api.task import PluginMetrics
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.connectors.mirror.flow import Flow

GROUP = "mirror-MirrorSourceConnector"
NowMs = Callable[[], float]
Stamps = tuple[int, int, float, float]
"""Of a batch: its first and its newest timestamp, when it was read, when it was acknowledged, ms."""


class MirrorSourceMetrics:
    """Of one task. One thread."""

    def __init__(self, metrics: PluginMetrics, flow: Flow, now_ms: NowMs) -> None:
        """Take where to count, whose records they are, and the time of day in ms."""
        self._metrics = metrics
        self._flow = flow
        self._now_ms = now_ms
        self._under_way: dict[TopicPartition, deque[tuple[int, list[int]]]] = defaultdict(deque)

    def read(self, remote: TopicPartition, rows: pa.RecordBatch) -> None:
        """Take note of records that were read, on their way to ``remote``."""
        times = rows.column("timestamp")
        ends = [times[0].as_py(), times[-1].as_py()]
        tags = self._tags(remote)
        size = pc.sum(pc.binary_length(rows.column("value"))).as_py()
        self._metrics.count("byte", size or 0, GROUP, **tags)
        self._metrics.observe("record-age-ms", self._ages(ends), GROUP, **tags)
        self._under_way[remote].append((rows.num_rows, ends))

    def arrived(self, delivery: Delivered) -> None:
        """Take note of records that are acknowledged."""
        remote = TopicPartition(delivery.topic, delivery.partition)
        runs, left = self._under_way.get(remote), delivery.records
        if not runs:
            return
        tags = self._tags(remote)
        self._metrics.count("record", delivery.records, GROUP, **tags)
        while left and runs:
            count, ends = runs.popleft()
            self._metrics.observe("replication-latency-ms", self._ages(ends), GROUP, **tags)
            if count > left:
                runs.appendleft((count - left, ends))
            left -= min(count, left)

    def copied(self, remote: TopicPartition, records: int, size: int, stamps: Sequence[Stamps]) -> None:
        """Take note of whole batches that are acknowledged; of them bytes are those of the batches."""
        tags = self._tags(remote)
        self._metrics.count("byte", size, GROUP, **tags)
        self._metrics.count("record", records, GROUP, **tags)
        ages = [read - time for *times, read, _ in stamps for time in times if time >= 0]
        latencies = [arrived - time for *times, _, arrived in stamps for time in times if time >= 0]
        self._metrics.observe("record-age-ms", ages, GROUP, **tags)
        self._metrics.observe("replication-latency-ms", latencies, GROUP, **tags)

    def _ages(self, times: list[int]) -> list[float]:
        now = self._now_ms()
        return [now - time for time in times if time >= 0]

    def _tags(self, remote: TopicPartition) -> dict[str, str]:
        source, target = self._flow.source_alias, self._flow.target_alias
        return {"source": source, "target": target, "topic": remote.topic, "partition": str(remote.partition)}
