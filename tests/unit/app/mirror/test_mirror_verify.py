"""How far a flow has surely copied, as the target's offset topic has it; the offset syncs of each partition."""

from __future__ import annotations

from types import SimpleNamespace

from spark_connect_rt.app.mirror.verify import FlowCheck, VerifyResult, positions_in, syncs_in
from spark_connect_rt.app.mirror.verify_rules import Compared
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.connectors.mirror.flow import Flow
from spark_connect_rt.connectors.mirror.records import OffsetSync
from spark_connect_rt.topics.compacted_log import LogRecord

HERE, NEXT = TopicPartition("t", 0), TopicPartition("t", 1)


def stored(connector: str, cluster: str, partition: int, value: bytes | None) -> LogRecord:
    key = f'["{connector}",{{"cluster":"{cluster}","partition":{partition},"topic":"t"}}]'
    return LogRecord(0, 0, key.encode(), value)


def test_the_last_offset_of_each_partition_counts_and_a_tombstone_forgets_it() -> None:
    records = [
        stored("mirror", "A", 0, b'{"offset":4}'),
        stored("mirror", "A", 1, b'{"offset":9}'),
        stored("mirror", "A", 0, b'{"offset":7}'),
        stored("mirror", "A", 1, None),
        stored("mirror", "Z", 0, b'{"offset":99}'),
        stored("other", "A", 0, b'{"offset":99}'),
        LogRecord(0, 0, b"unreadable", b"{}"),
        LogRecord(0, 0, b'["mirror",null]', b'{"offset":1}'),
    ]
    assert positions_in(records, "mirror", "A") == {HERE: 7}


def test_a_topic_that_is_gone_at_the_target_ends_no_comparison() -> None:
    """Its records are missing; a group of it has no offset there, whatever is committed for the topic that is gone."""
    gone, there = TopicPartition("gone", 0), TopicPartition("new", 0)
    check = object.__new__(FlowCheck)
    check._flow = Flow.of({"source.cluster.alias": "A", "target.cluster.alias": "B"})
    found = VerifyResult(
        positions={gone: 6},
        downstream={"g": {TopicPartition("A.gone", 0): 5}},
        target={},
        upstream={"g": {gone: 5}},
        source={gone: range(2, 10), there: range(3)},
        syncs={},
    )
    assert check._partition(gone, found).compared == Compared(missing=5, not_copied_yet=3)
    assert check._partition(there, found).compared == Compared(not_copied_yet=3)
    check._target = SimpleNamespace(admin=SimpleNamespace(group_is_active=lambda _: False))  # type: ignore[assignment]
    report = check._group("g", found)
    assert (report.unknown, report.is_safe) == ([gone], False)


def test_syncs_are_kept_by_partition_in_their_order() -> None:
    syncs = [OffsetSync(HERE, 0, 0), OffsetSync(NEXT, 3, 2), OffsetSync(HERE, 5, 9)]
    records = [LogRecord(0, 0, sync.key(), sync.value()) for sync in syncs]
    assert syncs_in([*records, LogRecord(0, 0, b"?", None)]) == {HERE: [syncs[0], syncs[2]], NEXT: [syncs[1]]}
