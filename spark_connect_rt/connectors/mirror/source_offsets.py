"""Source partitions and offsets of the mirror connectors, as a user wants to change them (Java ``MirrorUtils``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.config.config_def import Type, parse_value
from spark_connect_rt.connectors.mirror.config import TASK_GROUPS, TASK_INDEX, TASK_PARTITIONS
from spark_connect_rt.errors import ConnectError

CLUSTER, TOPIC, PARTITION, GROUP, OFFSET = "cluster", "topic", "partition", "group", "offset"
ONLY_ZERO = {OFFSET: 0}
"""The source offset of checkpoints and heartbeats, from which no task resumes."""
INT_MAX = 2**31 - 1
Offset = tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]


def source_partition(cluster: str, partition: TopicPartition) -> dict[str, Any]:
    """Return the Connect source partition of a partition that is copied."""
    return {CLUSTER: cluster, TOPIC: partition.topic, PARTITION: partition.partition}


def next_offset(stored: Mapping[str, Any] | None, otherwise: int) -> int:
    """Return the offset to resume from: the one after the stored offset, which is the last record's."""
    last = None if stored is None else stored.get(OFFSET)
    return otherwise if last is None or last < 0 else int(last) + 1


def check_offsets(offsets: Sequence[Offset], texts: Sequence[str], *, numbered: bool, only_zero: bool) -> None:
    """Check offsets that a user wants to write; an offset of None forgets any partition.

    Args:
        offsets: (source partition, source offset) pairs.
        texts: the keys of a source partition that must be texts.
        numbered: it must have a partition number, too.
        only_zero: 0 is the only valid offset; else any that is not negative.

    Raises ConnectError: something is missing or of the wrong kind.
    """
    for partition, offset in offsets:
        if offset is None:
            continue
        if partition is None:
            raise ConnectError("Source partitions may not be null")
        for key in texts:
            _check(partition, key, lambda value: isinstance(value, str), "must be a string")
        if numbered:
            _check(partition, PARTITION, _is_partition, f"must be a whole number from 0 to {INT_MAX}")
        words = "must be 0" if only_zero else "must be a whole number that is not negative"
        _check(offset, OFFSET, _is_zero if only_zero else _is_offset, words, partition)


def _check(
    fields: Mapping[str, Any],
    key: str,
    good: Callable[[Any], bool],
    words: str,
    partition: Mapping[str, Any] | None = None,
) -> None:
    what = f"source partition {dict(fields)}" if partition is None else f"offset {dict(fields)} of {dict(partition)}"
    if key not in fields:
        raise ConnectError(f"the {what} has no '{key}'")
    if not good(fields[key]):
        raise ConnectError(f"the '{key}' of the {what} {words}")


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_zero(value: Any) -> bool:
    return _is_whole(value) and value == 0


def _is_offset(value: Any) -> bool:
    return _is_whole(value) and value >= 0


def _is_partition(value: Any) -> bool:
    return _is_whole(value) and 0 <= value <= INT_MAX


# Which task copies which partitions and groups, as text in its configuration (Java's own keys).


def source_tasks(
    config: Mapping[str, str], partitions: Sequence[TopicPartition], max_tasks: int
) -> list[dict[str, str]]:
    """Return a configuration for each task. Partitions are assigned in turn, so that topics spread over all tasks."""
    count = min(max_tasks, len(partitions))
    shares = [",".join(map(str, partitions[first::count])) for first in range(count)]
    return [{**config, TASK_PARTITIONS: share, TASK_INDEX: str(index)} for index, share in enumerate(shares)]


def checkpoint_tasks(config: Mapping[str, str], groups: Sequence[str], max_tasks: int) -> list[dict[str, str]]:
    """Return a configuration for each task: neighbouring groups, the first tasks one more where they do not divide."""
    count = min(max_tasks, len(groups))
    configs, start = [], 0
    for index in range(count):
        end = start + len(groups) // count + (index < len(groups) % count)
        configs.append({**config, TASK_GROUPS: ",".join(groups[start:end]), TASK_INDEX: str(index)})
        start = end
    return configs


def partitions_of(config: Mapping[str, str]) -> list[TopicPartition]:
    """Return the partitions of a task's configuration."""
    pairs = (text.rpartition("-") for text in parse_value(Type.LIST, config.get(TASK_PARTITIONS, "")))
    return [TopicPartition(topic, int(number)) for topic, _, number in pairs]


def groups_of(config: Mapping[str, str]) -> list[str]:
    """Return the groups of a task's configuration."""
    groups: list[str] = parse_value(Type.LIST, config.get(TASK_GROUPS, ""))
    return groups
