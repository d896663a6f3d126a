"""What a cluster's topics tell of its mirroring (Java ``MirrorClient``, KIP-382). Pure: names and records in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.connectors.mirror.policy import ReplicationPolicy
from spark_connect_rt.connectors.mirror.records import Checkpoint
from spark_connect_rt.errors import DataError


@dataclass(frozen=True, slots=True)
class MirroredTopics:
    """The topics of one cluster, read by a replication policy."""

    policy: ReplicationPolicy
    topics: frozenset[str]

    def heartbeat_topics(self) -> set[str]:
        """Return the cluster's own heartbeats and those copied here."""
        return {topic for topic in self.topics if self.policy.is_heartbeats_topic(topic)}

    def checkpoint_topics(self) -> set[str]:
        """Return the topics of checkpoints."""
        return {topic for topic in self.topics if self.policy.is_checkpoints_topic(topic)}

    def upstream_clusters(self) -> set[str]:
        """Return the clusters whose heartbeats arrive here, over any number of hops."""
        return {alias for topic in self.heartbeat_topics() for alias in self._way_back(topic)}

    def replication_hops(self, upstream: str) -> int | None:
        """Return over how many flows a cluster's records come here at least; None: they don't."""
        ways = [list(self._way_back(topic)) for topic in self.heartbeat_topics()]
        return min((way.index(upstream) + 1 for way in ways if upstream in way), default=None)

    def remote_topics(self, source: str | None = None) -> set[str]:
        """Return the topics copied here, internal ones excepted; with ``source`` those that come straight from it."""
        found = {topic: self.policy.topic_source(topic) for topic in self.topics}
        remote = {topic for topic, alias in found.items() if alias is not None and source in (None, alias)}
        return {topic for topic in remote if not self.policy.is_internal_topic(topic)}

    def _way_back(self, topic: str) -> Iterator[str]:
        """Yield the clusters that a topic came over, the nearest first; each once: some policies cannot see loops."""
        seen: set[str] = set()
        upstream: str | None = topic
        while upstream is not None and (source := self.policy.topic_source(upstream)) not in (None, *seen):
            assert source is not None
            seen.add(source)
            yield source
            upstream = self.policy.upstream_topic(upstream)


def checkpoints(records: Iterable[tuple[bytes | None, bytes | None]]) -> dict[str, dict[TopicPartition, Checkpoint]]:
    """Return the newest checkpoints, by group and partition of this cluster, of a checkpoint topic's keys and values.

    What cannot be read is passed over.
    """
    newest: dict[str, dict[TopicPartition, Checkpoint]] = {}
    for key, value in records:
        try:
            checkpoint = Checkpoint.decode(key, value)
        except DataError:
            continue
        newest.setdefault(checkpoint.group, {})[checkpoint.partition] = checkpoint
    return newest
