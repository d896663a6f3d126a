"""May a local snapshot stand for the beginning of a topic? When in doubt, no: reading all of it is only slower.

What facts cannot settle the log itself does: reading resumes AT the last record that the snapshot knows of each
partition, and a record with another checksum there means another history (``kafka.logs.log_load``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from spark_connect_rt.topics.log_snapshot import LogSnapshot


@dataclass(frozen=True, slots=True)
class LogFacts:
    """What the broker says of a topic before it is read."""

    cluster_id: str
    topic: str
    topic_id: str
    beginning: Mapping[int, int]  # partition -> first offset
    end: Mapping[int, int]  # partition -> log end
    delete_retention_ms: int  # how long a tombstone stays, at least
    committed_only: bool = False  # how this worker reads it


def snapshot_refusal(snapshot: LogSnapshot, facts: LogFacts, now_ms: int) -> str | None:
    """Return why the snapshot must be thrown away, None when the topic's tail completes it."""
    if (snapshot.cluster_id, snapshot.topic) != (facts.cluster_id, facts.topic):
        return f"it is of topic {snapshot.topic} in cluster {snapshot.cluster_id}"
    if snapshot.topic_id != facts.topic_id:
        return "the topic was created again since"
    if snapshot.committed_only != facts.committed_only:
        return "it was read with another isolation level: it may hold what a transaction aborted since"
    if set(snapshot.bookmarks) != set(facts.end):
        return f"the topic has {len(facts.end)} partitions now, not {len(snapshot.bookmarks)}"
    return _outdated(snapshot, facts, now_ms) or _other_log(snapshot, facts)


def _outdated(snapshot: LogSnapshot, facts: LogFacts, now_ms: int) -> str | None:
    """A deletion leaves no trace once compaction has taken its tombstone: only a young snapshot has seen them all.

    Half of delete.retention.ms, because the setting may have been longer or shorter meanwhile, and clocks err.
    """
    age_ms, limit_ms = now_ms - snapshot.written_ms, facts.delete_retention_ms // 2
    if age_ms < 0:
        return "it has a time in the future"
    if age_ms > limit_ms:
        return f"it is {age_ms} ms old, so compaction may have removed tombstones since then (limit {limit_ms} ms)"
    return None


def _other_log(snapshot: LogSnapshot, facts: LogFacts) -> str | None:
    for number, mark in sorted(snapshot.bookmarks.items()):
        if mark.position > facts.end[number]:
            return f"partition {number} ends at {facts.end[number]}, before {mark.position}: the log was truncated"
        if mark.position < facts.beginning[number]:
            return f"partition {number} begins at {facts.beginning[number]}, after {mark.position}"
    for partition, offset, *_ in snapshot.records:
        if offset < facts.beginning.get(partition, 0):
            return f"partition {partition} lost offset {offset}: its records were deleted"
    return None
