"""Who copies what: partitions and groups dealt to tasks, as text in their configurations (Java's own keys)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.config.config_def import Type, parse_value
from spark_connect_rt.connectors.mirror.config import TASK_GROUPS, TASK_INDEX, TASK_PARTITIONS


def source_tasks(
    config: Mapping[str, str], partitions: Sequence[TopicPartition], max_tasks: int
) -> list[dict[str, str]]:
    """Return a configuration for each task: partitions are dealt one by one, so that topics spread over all tasks."""
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
