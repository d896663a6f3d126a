"""The local snapshot of a compacted topic: values <-> bytes of a file. A cache of the topic, never the truth.

Owns: the content of the file (every live record raw, and a bookmark per partition). topics/log_snapshot.py decides
whether it may be used.
"""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from spark_connect_rt.base.checked_lines import RawRecord, decode_lines, decode_record, encode_lines, encode_record
from spark_connect_rt.errors import DataError

KIND, VERSION = "connectrt-log-snapshot", 2


@dataclass(frozen=True, slots=True)
class ReadPosition:
    """How far one partition was read: the next offset, and the last record before it (None: there was none)."""

    position: int
    last_offset: int | None = None
    last_checksum: int | None = None  # checked_lines.checksum of that record

    @property
    def resume_at(self) -> int:
        """Return where reading resumes: at the last record once more, which proves that the log is the same one."""
        return self.position if self.last_offset is None else self.last_offset


@dataclass(frozen=True, slots=True)
class LogSnapshot:
    """The content of one topic when the snapshot was written."""

    cluster_id: str
    topic: str
    topic_id: str
    written_ms: int  # since the epoch, by this machine's clock
    bookmarks: Mapping[int, ReadPosition]  # by partition, all of them
    records: tuple[RawRecord, ...]  # the last record of each live key
    committed_only: bool = False  # read without uncommitted transactions


def encode_snapshot(snapshot: LogSnapshot) -> bytes:
    """Return the file's content with a checksum."""
    header = {
        "kind": KIND,
        "version": VERSION,
        "cluster_id": snapshot.cluster_id,
        "topic": snapshot.topic,
        "topic_id": snapshot.topic_id,
        "written_ms": snapshot.written_ms,
        "committed_only": snapshot.committed_only,
        "bookmarks": [
            [number, mark.position, mark.last_offset, mark.last_checksum]
            for number, mark in sorted(snapshot.bookmarks.items())
        ],
    }
    return b"".join(encode_lines(header, map(encode_record, snapshot.records)))


def decode_snapshot(data: bytes) -> LogSnapshot:
    """Return the snapshot. Raises DataError: damaged, or of another version."""
    header, rows = decode_lines(data, KIND, VERSION)
    try:
        bookmarks = {int(number): ReadPosition(int(at), last, check) for number, at, last, check in header["bookmarks"]}
        return LogSnapshot(
            str(header["cluster_id"]),
            str(header["topic"]),
            str(header["topic_id"]),
            int(header["written_ms"]),
            bookmarks,
            tuple(map(decode_record, rows)),
            bool(header["committed_only"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"the header is not a snapshot's: {error!r}") from error


# Whether a local snapshot may replace the beginning of a topic. When in doubt, no: reading all of it is only slower.
#
# The log settles cases that the facts leave open. Reading resumes AT the last record of each partition that the
# snapshot contains. A record with another checksum there means another history (``kafka.logs.log_load``).


@dataclass(frozen=True, slots=True)
class LogFacts:
    """The broker's facts about a topic before it is read."""

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


# The file that keeps a topic's snapshot between two starts of a worker. Trouble with it costs time, never truth.


log = logging.getLogger(__name__)


class LogCache:
    """Snapshots under one folder; workers on one machine may share it: a file is replaced whole."""

    def __init__(self, directory: Path, now_ms: Callable[[], int]) -> None:
        """Take the folder, made when needed, and the wall clock (ms since the epoch)."""
        self._directory = directory
        self.now_ms = now_ms

    def path(self, facts: LogFacts) -> Path:
        """Return the file of one topic of one cluster."""
        cluster = "".join(c for c in facts.cluster_id if c.isalnum() or c in "-_")
        return self._directory / f"{facts.topic}.{cluster}.snapshot"

    def load(self, facts: LogFacts) -> LogSnapshot | None:
        """Return the snapshot that the topic's tail completes; a file that is in doubt is removed."""
        path = self.path(facts)
        try:
            snapshot = decode_snapshot(path.read_bytes())
            refusal = snapshot_refusal(snapshot, facts, self.now_ms())
        except FileNotFoundError:
            return None
        except (OSError, DataError) as error:
            refusal = str(error)
        if refusal is None:
            return snapshot
        self.discard(facts, refusal)
        return None

    def discard(self, facts: LogFacts, why: str) -> None:
        """Remove the snapshot's file and log why."""
        log.warning("topic=%s discarding the snapshot and reading the whole topic: %s", facts.topic, why)
        try:
            self.path(facts).unlink(missing_ok=True)
        except OSError as error:
            log.warning("topic=%s snapshot cannot be removed: %s", facts.topic, error)

    def save(self, facts: LogFacts, snapshot: LogSnapshot) -> bool:
        """Replace the file; return False, with a warning, when that is not possible."""
        path = self.path(facts)
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            # Not readable by others: offsets may hold names of their files and rows.
            handle, beside = tempfile.mkstemp(dir=self._directory, prefix=f"{path.name}.")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(encode_snapshot(snapshot))
                os.replace(beside, path)
            except BaseException:
                Path(beside).unlink(missing_ok=True)
                raise
        except OSError as error:
            log.warning("topic=%s the snapshot cannot be written: %s", facts.topic, error)
            return False
        return True
