from dataclasses import replace

import pytest

from spark_connect_rt.base.checked_lines import encode_lines
from spark_connect_rt.errors import DataError
from spark_connect_rt.topics.log_snapshot import (
    LogFacts,
    LogSnapshot,
    ReadPosition,
    decode_snapshot,
    encode_snapshot,
    snapshot_refusal,
)

HOUR_MS = 3_600_000
NOW_MS = 100 * HOUR_MS
SNAPSHOT = LogSnapshot(
    "cluster",
    "offsets",
    "id-1",
    NOW_MS - HOUR_MS,
    {0: ReadPosition(5, 4, 99), 1: ReadPosition(0)},
    ((0, 4, b"k", b"v", 7),),
)
FACTS = LogFacts("cluster", "offsets", "id-1", {0: 0, 1: 0}, {0: 9, 1: 0}, 24 * HOUR_MS)


def refusal(now_ms: int = NOW_MS, **facts: object) -> str:
    return snapshot_refusal(SNAPSHOT, replace(FACTS, **facts), now_ms) or ""  # type: ignore[arg-type]


def test_a_young_snapshot_of_this_log_is_used() -> None:
    assert refusal() == ""
    assert refusal(end={0: 5, 1: 0}) == ""  # nothing new
    assert SNAPSHOT.bookmarks[0].resume_at == 4
    assert SNAPSHOT.bookmarks[1].resume_at == 0


def test_another_topic_or_cluster_is_refused() -> None:
    assert "cluster cluster" in refusal(cluster_id="other")
    assert "topic offsets" in refusal(topic="other")
    assert "created again" in refusal(topic_id="id-2")


@pytest.mark.parametrize("committed_only", [False, True])
def test_a_snapshot_of_another_isolation_level_is_refused(committed_only: bool) -> None:
    kept = decode_snapshot(encode_snapshot(replace(SNAPSHOT, committed_only=committed_only)))
    assert snapshot_refusal(kept, replace(FACTS, committed_only=committed_only), NOW_MS) is None
    refused = snapshot_refusal(kept, replace(FACTS, committed_only=not committed_only), NOW_MS)
    assert refused is not None
    assert "isolation level" in refused


def test_another_number_of_partitions_is_refused() -> None:
    assert "3 partitions now, not 2" in refusal(end={0: 9, 1: 0, 2: 0}, beginning={0: 0, 1: 0, 2: 0})


def test_a_log_that_ends_or_begins_elsewhere_is_refused() -> None:
    assert "truncated" in refusal(end={0: 4, 1: 0})
    assert "after 5" in refusal(beginning={0: 6, 1: 0})
    assert "lost offset 4" in refusal(beginning={0: 5, 1: 0})


def test_a_snapshot_that_may_have_missed_tombstones_is_refused() -> None:
    assert refusal(now_ms=NOW_MS + 11 * HOUR_MS) == ""
    assert "old" in refusal(now_ms=NOW_MS + 11 * HOUR_MS + 1)
    assert "old" in refusal(delete_retention_ms=HOUR_MS)
    assert "old" in refusal(delete_retention_ms=0)  # the broker did not say
    assert "future" in refusal(now_ms=NOW_MS - HOUR_MS - 1)


def test_the_file_holds_all_of_it() -> None:
    assert decode_snapshot(encode_snapshot(SNAPSHOT)) == SNAPSHOT


def test_a_whole_file_with_a_strange_header_is_refused() -> None:
    header = {"kind": "connectrt-log-snapshot", "version": 2, "bookmarks": "none"}
    with pytest.raises(DataError, match="header"):
        decode_snapshot(b"".join(encode_lines(header, [])))
