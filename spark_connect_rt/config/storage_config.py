"""The three internal topics: their names and how they are created (Java ``DistributedConfig``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spark_connect_rt.config.config_def import HIGH, LOW, REQUIRED, ConfigDef, ConfigKey, Type, prefixed
from spark_connect_rt.config.validators import AtLeastOr, non_empty

TOPIC_KINDS = {"config": "connector configurations", "offset": "source offsets", "status": "statuses"}
_COUNT = AtLeastOr(1, special=-1)


def _topic_keys(kind: str, holds: str) -> list[ConfigKey]:
    name = ConfigKey(f"{kind}.storage.topic", Type.STRING, REQUIRED, HIGH, f"Compacted topic of {holds}.", non_empty)
    copies = ConfigKey(
        f"{kind}.storage.replication.factor",
        Type.SHORT,
        3,
        LOW,
        f"Replication factor of the topic of {holds} when it is created. -1: the broker's default.",
        _COUNT,
    )
    return [name, copies]


STORAGE = ConfigDef(
    [
        *(key for kind, holds in TOPIC_KINDS.items() for key in _topic_keys(kind, holds)),
        ConfigKey(
            "offset.storage.partitions",
            Type.INT,
            25,
            LOW,
            "Partitions of the offset topic when it is created. -1: the broker's default.",
            _COUNT,
        ),
        ConfigKey(
            "status.storage.partitions",
            Type.INT,
            5,
            LOW,
            "Partitions of the status topic when it is created. -1: the broker's default.",
            _COUNT,
        ),
    ]
)


@dataclass(frozen=True, slots=True)
class StorageTopic:
    """One internal topic and how it is created; -1 partitions or copies: the broker's default."""

    name: str
    partitions: int
    replication_factor: int
    settings: Mapping[str, str]  # topic configurations; cleanup.policy is not the user's to choose


def storage_topics(values: Mapping[str, Any], resolved: Mapping[str, str]) -> dict[str, StorageTopic]:
    """Return the topics by TOPIC_KINDS, of typed values and of the texts (``config.storage.segment.bytes``)."""
    own = {"topic", "replication.factor", "partitions", "cleanup.policy"}
    return {
        kind: StorageTopic(
            values[f"{kind}.storage.topic"],
            values.get(f"{kind}.storage.partitions", 1),  # the config topic has one: its order is that of everything
            values[f"{kind}.storage.replication.factor"],
            {name: text for name, text in prefixed(resolved, f"{kind}.storage.").items() if name not in own},
        )
        for kind in TOPIC_KINDS
    }
