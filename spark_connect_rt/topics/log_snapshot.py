"""The local snapshot of a compacted topic: values <-> bytes of a file. A cache of the topic, never the truth.

Owns: what is kept (every live record raw, and a bookmark per partition). Whether it may be used is
topics/planning_log_snapshot.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from spark_connect_rt.base.checked_lines import RawRecord, decode_lines, decode_record, encode_lines, encode_record
from spark_connect_rt.errors import DataError

KIND, VERSION = "connectrt-log-snapshot", 2


@dataclass(frozen=True, slots=True)
class Bookmark:
    """How far one partition was read: the next offset, and the last record before it (None: there was none)."""

    position: int
    last_offset: int | None = None
    last_checksum: int | None = None  # checked_lines.checksum of that record

    @property
    def resume_at(self) -> int:
        """Return where reading goes on: at the last record once more, which proves that the log is the same one."""
        return self.position if self.last_offset is None else self.last_offset


@dataclass(frozen=True, slots=True)
class LogSnapshot:
    """What one topic held when it was written."""

    cluster_id: str
    topic: str
    topic_id: str
    written_ms: int  # since the epoch, by this machine's clock
    bookmarks: Mapping[int, Bookmark]  # by partition, all of them
    records: tuple[RawRecord, ...]  # the last record of each live key
    committed_only: bool = False  # read without what transactions had not committed


def encode_snapshot(snapshot: LogSnapshot) -> bytes:
    """Return the file's content."""
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
        bookmarks = {int(number): Bookmark(int(at), last, check) for number, at, last, check in header["bookmarks"]}
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
