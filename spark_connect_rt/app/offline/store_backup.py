"""A backup of a worker group's three internal topics: JSON lines, raw bytes, checked (``base.checked_lines``)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from spark_connect_rt.base.checked_lines import RawRecord, decode_lines, decode_record, encode_lines, encode_record
from spark_connect_rt.errors import DataError

KIND, VERSION = "connectrt-store-backup", 1
KINDS = ("configs", "offsets", "statuses")


@dataclass(frozen=True, slots=True)
class BackedUpTopic:
    """One topic: its name and partitions then, and its records in the order to write them."""

    name: str
    partitions: int
    records: tuple[RawRecord, ...]


@dataclass(frozen=True, slots=True)
class StoreBackup:
    """All that a worker group keeps in Kafka, but for the data itself and the offsets of sinks."""

    cluster_id: str
    group_id: str
    written_ms: int
    topics: Mapping[str, BackedUpTopic]  # configs, offsets, statuses


def encode_backup(backup: StoreBackup) -> Iterable[bytes]:
    """Yield the lines of the backup's file."""
    header = {
        "kind": KIND,
        "version": VERSION,
        "cluster_id": backup.cluster_id,
        "group_id": backup.group_id,
        "written_ms": backup.written_ms,
        "topics": {
            kind: {"name": topic.name, "partitions": topic.partitions, "records": len(topic.records)}
            for kind, topic in backup.topics.items()
        },
    }
    rows = chain.from_iterable(_rows(kind, backup.topics[kind].records) for kind in KINDS)
    return encode_lines(header, rows)


def decode_backup(data: bytes) -> StoreBackup:
    """Return the backup. Raises DataError: no backup, not whole, or changed."""
    header, rows = decode_lines(data, KIND, VERSION)
    records: dict[str, list[RawRecord]] = {kind: [] for kind in KINDS}
    try:
        for row in rows:
            records[row["topic"]].append(decode_record(row))
        topics = {
            kind: BackedUpTopic(str(about["name"]), int(about["partitions"]), tuple(records[kind]))
            for kind, about in header["topics"].items()
        }
        backup = StoreBackup(str(header["cluster_id"]), str(header["group_id"]), int(header["written_ms"]), topics)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataError(f"not a backup as this version writes it: {error!r}") from error
    for kind in KINDS:
        if kind not in topics or len(topics[kind].records) != header["topics"][kind]["records"]:
            raise DataError(f"the backup's {kind} are incomplete")
    return backup


def _rows(kind: str, records: Sequence[RawRecord]) -> Iterable[dict[str, Any]]:
    return ({"topic": kind, **encode_record(record)} for record in records)
