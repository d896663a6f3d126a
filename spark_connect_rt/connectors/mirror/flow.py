"""One flow of records, source -> target: its names, its clients' properties, its topics (``MirrorConnectorConfig``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from spark_connect_rt.config.config_def import prefixed
from spark_connect_rt.connectors.mirror.config import (
    BASE,
    CLIENT_NAMES,
    OFFSET_SYNCS_LOCATION,
    SOURCE,
    TARGET,
    TARGET_ALIAS,
)
from spark_connect_rt.connectors.mirror.policy import SOURCE_ALIAS, ReplicationPolicy, replication_policy

CONSUMER_DEFAULTS = {"auto.offset.reset": "earliest"}


@dataclass(frozen=True, slots=True)
class Flow:
    """The common facts of the three connectors of a flow."""

    config: Mapping[str, str]
    policy: ReplicationPolicy
    source_alias: str
    target_alias: str

    @staticmethod
    def of(config: Mapping[str, str]) -> Flow:
        """Return the flow of a connector's or task's configuration. Raises BadConfigError: no such policy."""
        target = config.get(TARGET_ALIAS, BASE[TARGET_ALIAS].default)
        return Flow(config, replication_policy(config), config[SOURCE_ALIAS], target)

    def client(self, side: str, kind: str, role: str) -> dict[str, str]:
        """Return the Java properties of one client.

        The properties of all clients of the cluster come first, then the kind's, then the kind's at that cluster.

        Args:
            side: "source" or "target".
            kind: "consumer", "producer" or "admin".
            role: ends the client id, so that brokers can identify it.
        """
        properties = client_properties(self.config, side, kind)
        own = properties.get("client.id")
        label = f"{self.source_alias}->{self.target_alias}|{self.config.get('name', '')}|{role}"
        return {**properties, "client.id": f"{own}|{label}" if own else label}

    def offset_syncs(self) -> tuple[str, str]:
        """Return (side, topic) of the offset syncs: each cluster keeps them under the other's name."""
        side = self.config.get(OFFSET_SYNCS_LOCATION, SOURCE)
        other = self.target_alias if side == SOURCE else self.source_alias
        return side, self.policy.offset_syncs_topic(other)

    def checkpoints_topic(self) -> str:
        """Return the topic of checkpoints, which is at the target."""
        return self.policy.checkpoints_topic(self.source_alias)

    def remote_topic(self, topic: str) -> str:
        """Return the name of a source topic at the target."""
        return self.policy.format_remote_topic(self.source_alias, topic)


def client_properties(config: Mapping[str, str], side: str, kind: str) -> dict[str, str]:
    """Return the Java properties of a ``kind`` of client at ``side``, as ``Flow.client`` but for the client id."""
    assert side in (SOURCE, TARGET), side
    shared = {name: value for name, value in prefixed(config, f"{side}.cluster.").items() if name in CLIENT_NAMES}
    defaults = CONSUMER_DEFAULTS if kind == "consumer" else {}
    return {**defaults, **shared, **prefixed(config, f"{kind}."), **prefixed(config, f"{side}.{kind}.")}


def reads_committed(config: Mapping[str, str]) -> bool:
    """Return whether the source is read without open and aborted transactions, as exactly-once requires."""
    return client_properties(config, SOURCE, "consumer").get("isolation.level") == "read_committed"
