"""Requests to alter or reset offsets, checked before anything is written (KIP-875).

Owns: one entry per partition, a sink's partitions and offsets, the types a source's may hold, the answer's words.
Source: Java ``ConnectorOffsets.toMap``, ``SinkUtils.parseSinkConnectorOffsets``, ``OffsetUtils.validateFormat``.
"""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.base.json_text import canonical
from spark_connect_rt.errors import BadRequestError, DataError
from spark_connect_rt.topics.offset_records import OffsetMap, is_java_long

OffsetPair = tuple[OffsetMap | None, OffsetMap | None]
"""(partition, offset); an offset of None forgets the partition."""

TOPIC, PARTITION, OFFSET = "kafka_topic", "kafka_partition", "kafka_offset"
_INTEGER = re.compile(r"[+-]?[0-9]+")
_MAPS_AND_LISTS: dict[type[Any], str] = {dict: "MAP", list: "ARRAY"}


def one_per_partition(pairs: Sequence[OffsetPair]) -> list[OffsetPair]:
    """Return the pairs with equal partitions collapsed; the later one wins."""
    return list({canonical(partition): (partition, offset) for partition, offset in pairs}.values())


def check_source_offsets(pairs: Sequence[OffsetPair]) -> None:
    """Raise DataError unless every field is null, text, boolean, or a number that Java has a type for.

    A partition that is to be removed may hold any number: everything that is stored can be removed.
    """
    for partition, offset in pairs:
        for fields in (partition, offset):
            for name, value in (fields or {}).items():
                kind = _refused(value, may_be_big=offset is None)
                if kind is not None:
                    text = "Offsets may only contain primitive types as values, but field"
                    raise DataError(f"{text} {name} contains {kind}")


def _refused(value: Any, may_be_big: bool) -> str | None:
    if isinstance(value, int) and not may_be_big and not is_java_long(value):
        return "class java.math.BigInteger"
    return _MAPS_AND_LISTS.get(type(value))


def sink_offsets(pairs: Sequence[OffsetPair]) -> dict[TopicPartition, int | None]:
    """Return a sink's new offsets, None where one is to be forgotten. Raises BadRequestError in Java's words."""
    return {_sink_partition(partition): _sink_offset(offset) for partition, offset in pairs}


def as_pairs(offsets: Mapping[TopicPartition, int | None]) -> list[OffsetPair]:
    """Return a sink's offsets as the REST API shows them."""
    return [
        ({PARTITION: place.partition, TOPIC: place.topic}, None if offset is None else {OFFSET: offset})
        for place, offset in sorted(offsets.items())
    ]


def _sink_partition(fields: OffsetMap | None) -> TopicPartition:
    if fields is None:
        raise BadRequestError("The partition for a sink connector offset cannot be null or missing")
    if TOPIC not in fields or PARTITION not in fields:
        raise BadRequestError(
            f"The partition for a sink connector offset must contain the keys '{TOPIC}' and '{PARTITION}'"
        )
    if fields[TOPIC] is None:
        raise BadRequestError("Kafka topic names must be valid strings and may not be null")
    if fields[PARTITION] is None:
        raise BadRequestError("Kafka partitions must be valid numbers and may not be null")
    return TopicPartition(_text(fields[TOPIC]), _integer(fields[PARTITION], 32, "partition", "Partition"))


def _sink_offset(fields: OffsetMap | None) -> int | None:
    if fields is None:
        return None
    if OFFSET not in fields:
        raise BadRequestError(f"The offset for a sink connector should either be null or contain the key '{OFFSET}'")
    return _integer(fields[OFFSET], 64, "offset", "Offset")


def _integer(value: Any, bits: int, what: str, begins: str) -> int:
    text = _text(value)
    if _INTEGER.fullmatch(text) and -(2 ** (bits - 1)) <= int(text) < 2 ** (bits - 1):
        return int(text)
    raise BadRequestError(
        f"Failed to parse the following Kafka {what} value in the provided offsets: '{text}'. "
        f"{begins} values for sink connectors need to be integers."
    )


def _text(value: Any) -> str:
    """Return a JSON value as Java's ``String.valueOf`` writes it (maps and lists: near enough to be recognised)."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def answer_words(is_reset: bool, altered_outside: bool) -> str:
    """Return the answer; ``altered_outside``: the connector returned that nothing else needs to be done."""
    done = "reset" if is_reset else "altered"
    if altered_outside:
        return f"The offsets for this connector have been {done} successfully"
    return (
        f"The Connect framework-managed offsets for this connector have been {done} successfully. However, if this "
        f"connector manages offsets externally, they will need to be manually {done} in the system that the connector "
        "uses."
    )


def caught_up(
    held: Mapping[TopicPartition, tuple[int, int]], committed: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Return the offsets a group lacks: its table holds (start, end) of a partition and end was never committed."""
    return {
        partition: end for partition, (start, end) in held.items() if start <= committed.get(partition, start) < end
    }


# The offsets that an undo or a way back in time writes, and when it is not safe. Pure.


@dataclass(frozen=True, slots=True)
class OffsetMove:
    """One partition: its offset, and the offset to resume from. None: no offset, it begins as if it were new."""

    partition: OffsetMap | None
    from_: OffsetMap | None
    to: OffsetMap | None


Table = Mapping[Any, OffsetPair]


def by_partition(pairs: Sequence[OffsetPair]) -> dict[Any, OffsetPair]:
    """Return the pairs by the canonical form of their partition."""
    return {canonical(partition): (partition, offset) for partition, offset in pairs}


def offset_moves(now: Sequence[OffsetPair], then: Sequence[OffsetPair]) -> list[OffsetMove]:
    """Return the moves of every partition from its present to its earlier offset. None: the partition is forgotten."""
    present, wanted = by_partition(now), by_partition(then)
    moves = []
    for key in [*present, *(key for key in wanted if key not in present)]:
        partition = (present.get(key) or wanted[key])[0]
        at, to = present.get(key, (None, None))[1], wanted.get(key, (None, None))[1]
        if not _same(at, to):
            moves.append(OffsetMove(partition, at, to))
    return moves


def undo_moves(
    now: Sequence[OffsetPair], before: Sequence[OffsetPair], after: Sequence[OffsetPair]
) -> tuple[list[OffsetMove], list[OffsetMove]]:
    """Return the moves that undo a change from ``before`` to ``after``, and the moves since that change was made.

    Only partitions that the change changed are included. A move since then: partition, offset of the change, offset
    now.
    """
    present, old = by_partition(now), by_partition(before)
    moves, moved = [], []
    for move in offset_moves(before, after):
        key = canonical(move.partition)
        at, back = present.get(key, (None, None))[1], old.get(key, (None, None))[1]
        if not _same(at, move.to):
            moved.append(OffsetMove(move.partition, move.to, at))
        if not _same(at, back):
            moves.append(OffsetMove(move.partition, at, back))
    return moves, moved


def pairs_of(moves: Sequence[OffsetMove]) -> list[OffsetPair]:
    """Return the offsets for a request to alter them."""
    return [(move.partition, move.to) for move in moves]


def changed_pairs(before: Sequence[OffsetPair], change: Sequence[OffsetPair] | None) -> list[OffsetPair]:
    """Return the offsets after a change: pairs to set, an offset of None forgetting its partition; None: forget all."""
    table = {} if change is None else by_partition(before) | by_partition(change)
    return [pair for pair in table.values() if pair[1] is not None]


def as_sink_offsets(pairs: Sequence[OffsetPair]) -> list[tuple[str, int, int]] | None:
    """Return (topic, partition, offset) of a sink's offsets; None: these are not a sink's."""
    found = []
    for partition, offset in pairs:
        if partition is None or offset is None or TOPIC not in partition or OFFSET not in offset:
            return None
        found.append((str(partition[TOPIC]), int(partition[PARTITION]), int(offset[OFFSET])))
    return found


def _same(offset_map: OffsetMap | None, other: OffsetMap | None) -> bool:
    return offset_map is other if offset_map is None or other is None else canonical(offset_map) == canonical(other)


# Changes of offsets that this worker carried out, for listeners that keep a record of them.


log = logging.getLogger(__name__)

ALTER, RESET, PRUNE = "alter", "reset", "prune"


@dataclass(frozen=True, slots=True)
class OffsetsChanged:
    """All offsets of a connector before and after a change; None: not known. ``key``: of its event."""

    connector: str
    action: str
    before: Sequence[OffsetPair] | None
    after: Sequence[OffsetPair] | None
    key: str = field(default_factory=lambda: f"offsets-{uuid.uuid4().hex[:12]}", compare=False)


class OffsetNotes:
    """Hands changes to at most one listener. Any thread; never raises."""

    def __init__(self) -> None:
        self._listener: Callable[[OffsetsChanged], None] | None = None

    @property
    def is_wanted(self) -> bool:
        """Return whether a listener is set. Without it, callers need not read the offsets before a change."""
        return self._listener is not None

    def listen(self, listener: Callable[[OffsetsChanged], None]) -> None:
        """Call ``listener`` with every change from now on; it returns at once."""
        self._listener = listener

    def changed(self, change: OffsetsChanged) -> None:
        """Report a change that is durable."""
        if self._listener is None:
            return
        try:
            self._listener(change)
        except Exception:
            log.exception("connector=%s a change of offsets cannot be recorded", change.connector)
