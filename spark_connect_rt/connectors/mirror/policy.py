"""How topics of one cluster are called on another (Java ``ReplicationPolicy`` and its two implementations)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping

from spark_connect_rt.connectors.mirror.named_class import JAVA_PACKAGE, class_named
from spark_connect_rt.errors import BadConfigError

POLICY_CLASS = "replication.policy.class"
SEPARATOR = "replication.policy.separator"
INTERNAL_SEPARATOR = "replication.policy.internal.topic.separator.enabled"
SOURCE_ALIAS = "source.cluster.alias"


class ReplicationPolicy(ABC):
    """Names remote topics and finds their way back. A custom one may be written in Python and named by its class."""

    def configure(self, config: Mapping[str, str]) -> None:
        """Take the policy's settings from a connector's configuration."""

    @abstractmethod
    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        """Return the name of a source topic on the target."""

    @abstractmethod
    def topic_source(self, topic: str) -> str | None:
        """Return the alias of the cluster that a remote topic comes from; None: it is not a remote one."""

    @abstractmethod
    def upstream_topic(self, topic: str) -> str | None:
        """Return the name of a remote topic on the cluster that it comes from; None: it is not a remote one."""

    def original_topic(self, topic: str) -> str:
        """Return the topic's name on the cluster where it was first written, any number of hops away."""
        while (upstream := self.upstream_topic(topic)) not in (None, topic):
            assert upstream is not None
            topic = upstream
        return topic

    def heartbeats_topic(self) -> str:
        """Return the topic of heartbeats."""
        return "heartbeats"

    def offset_syncs_topic(self, alias: str) -> str:
        """Return the topic of offset syncs that one cluster keeps for the other, ``alias``."""
        return f"mm2-offset-syncs.{alias}.internal"

    def checkpoints_topic(self, alias: str) -> str:
        """Return the checkpoints topic for the groups of cluster ``alias``."""
        return f"{alias}.checkpoints.internal"

    def is_heartbeats_topic(self, topic: str) -> bool:
        """Return whether it is the heartbeats topic or a copy of one."""
        return self.original_topic(topic) == self.heartbeats_topic()

    def is_checkpoints_topic(self, topic: str) -> bool:
        """Return whether the topic holds checkpoints."""
        return topic.endswith(".checkpoints.internal")

    def is_mm2_internal_topic(self, topic: str) -> bool:
        """Return whether it is one of MirrorMaker's own."""
        return (topic.startswith("mm2") and topic.endswith(".internal")) or self.is_checkpoints_topic(topic)

    def is_internal_topic(self, topic: str) -> bool:
        """Return whether it is one of Kafka's or MirrorMaker's own: these are never replicated."""
        return topic.startswith(("__", ".")) or self.is_mm2_internal_topic(topic)


class DefaultReplicationPolicy(ReplicationPolicy):
    """``topic`` of cluster ``A`` is ``A.topic``; the separator is a setting."""

    def __init__(self, separator: str = ".", internal_separator: bool = True) -> None:
        """Start with a separator; ``internal_separator``: it is used in the names of internal topics, too."""
        self._separator = separator
        self._internal_separator = internal_separator

    def configure(self, config: Mapping[str, str]) -> None:
        """Take the separator, and whether internal topics use it. Raises BadConfigError: it is empty."""
        if SEPARATOR in config:
            self._separator = config[SEPARATOR]
            if not self._separator:
                raise BadConfigError(
                    {SEPARATOR: ["must not be empty, because remote topics could not be distinguished from others"]}
                )
            self._internal_separator = config.get(INTERNAL_SEPARATOR, "true").strip().lower() == "true"

    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        """Put the alias before the topic."""
        return f"{source_alias}{self._separator}{topic}"

    def topic_source(self, topic: str) -> str | None:
        """Return the text before the first separator. As Java's, None where nothing but separators follows."""
        source, found, rest = topic.partition(self._separator)
        return source if found and rest.replace(self._separator, "") else None

    def upstream_topic(self, topic: str) -> str | None:
        """Return the text after the first separator."""
        source = self.topic_source(topic)
        return None if source is None else topic[len(source) + len(self._separator) :]

    def offset_syncs_topic(self, alias: str) -> str:
        """Return the topic of offset syncs, with the separator between its parts."""
        return f"mm2-offset-syncs{self._internal()}{alias}{self._internal()}internal"

    def checkpoints_topic(self, alias: str) -> str:
        """Return the topic of checkpoints, with the separator between its parts."""
        return f"{alias}{self._internal()}checkpoints{self._internal()}internal"

    def is_checkpoints_topic(self, topic: str) -> bool:
        """Return whether the topic's name ends like one of checkpoints."""
        return topic.endswith(self.checkpoints_topic(""))

    def is_mm2_internal_topic(self, topic: str) -> bool:
        """Return whether it is a topic of offset syncs or of checkpoints."""
        mm2 = topic.startswith("mm2") and topic.endswith(f"{self._internal()}internal")
        return mm2 or self.is_checkpoints_topic(topic)

    def _internal(self) -> str:
        return self._separator if self._internal_separator else "."


class IdentityReplicationPolicy(DefaultReplicationPolicy):
    """Topics keep their names, but for heartbeats. Loops cannot be seen by name: replicate one way only."""

    def __init__(self, separator: str = ".", internal_separator: bool = True, source_alias: str | None = None) -> None:
        """As the default one. ``source_alias``: the source that is returned for every topic."""
        super().__init__(separator, internal_separator)
        self._source_alias = source_alias

    def configure(self, config: Mapping[str, str]) -> None:
        """Take the source's alias, too."""
        super().configure(config)
        self._source_alias = config.get(SOURCE_ALIAS, self._source_alias)

    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        """Return the topic itself; heartbeats as the default policy."""
        return super().format_remote_topic(source_alias, topic) if self._is_heartbeat(topic) else topic

    def topic_source(self, topic: str) -> str | None:
        """Return the configured alias; heartbeats as the default policy."""
        return super().topic_source(topic) if self._is_heartbeat(topic) else self._source_alias

    def upstream_topic(self, topic: str) -> str | None:
        """Return the topic itself; heartbeats as the default policy."""
        return super().upstream_topic(topic) if self._is_heartbeat(topic) else topic

    def _is_heartbeat(self, topic: str) -> bool:
        return topic.endswith(self.heartbeats_topic())


POLICIES: dict[str, type[ReplicationPolicy]] = {
    f"{JAVA_PACKAGE}.{policy.__name__}": policy for policy in (DefaultReplicationPolicy, IdentityReplicationPolicy)
}


def replication_policy(config: Mapping[str, str]) -> ReplicationPolicy:
    """Return the policy that a configuration asks for, configured. Raises BadConfigError: there is no such class."""
    name = config.get(POLICY_CLASS) or f"{JAVA_PACKAGE}.{DefaultReplicationPolicy.__name__}"
    policy: ReplicationPolicy = class_named(POLICY_CLASS, name, POLICIES)()
    policy.configure(config)
    return policy


def is_cycle(policy: ReplicationPolicy, topic: str, target_alias: str) -> bool:
    """Return whether the topic came, by any number of hops, from the cluster that it would be copied to."""
    return target_alias in _hops(policy, topic)


def is_own_copy(policy: ReplicationPolicy, topic: str, source_alias: str) -> bool:
    """Return whether a topic of the source is a copy from the source itself: then its target is the same cluster.

    Copied again it would get one more alias at every refresh. Names that do not change show nothing.
    """
    return policy.upstream_topic(topic) != topic and source_alias in _hops(policy, topic)


def _hops(policy: ReplicationPolicy, topic: str) -> Iterator[str]:
    """Yield the clusters that a topic came through, the last one first."""
    while (source := policy.topic_source(topic)) is not None:
        yield source
        upstream = policy.upstream_topic(topic)
        if upstream is None or upstream == topic:  # names that do not change show no loop
            return
        topic = upstream
