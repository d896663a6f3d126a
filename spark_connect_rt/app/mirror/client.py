"""Implements ``connectrt mirror client``: KIP-382's MirrorClient as a command."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient

from spark_connect_rt.app.mirror.mirror_maker import maker_config
from spark_connect_rt.app.mirror.verify_rules import ComparedRecord, digest
from spark_connect_rt.app.offline.store_actions import print_table
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.config.config_def import prefixed
from spark_connect_rt.connectors.mirror.config import CLIENT_NAMES
from spark_connect_rt.connectors.mirror.policy import SOURCE_ALIAS, ReplicationPolicy, replication_policy
from spark_connect_rt.connectors.mirror.records import Checkpoint
from spark_connect_rt.errors import BadConfigError, DataError, TimedOutError
from spark_connect_rt.kafka.admin import KafkaAdmin
from spark_connect_rt.kafka.admin_answers import answer_of
from spark_connect_rt.kafka.client_factory import make_consumer
from spark_connect_rt.kafka.error_mapping import connect_error
from spark_connect_rt.kafka.group_offsets import KafkaGroupOffsets
from spark_connect_rt.kafka.logs.topic_records import STALLED_MS, end_of_read, read_topic
from spark_connect_rt.topics.compacted_log import LogRecord

# One cluster as ``connectrt mirror client`` and ``verify`` see it: its topics, its groups, its records as digests.


REACH_LIMIT_MS = 15_000
LIMIT_S = 30.0
BATCH_COUNT = 10_000


class MirroredCluster:
    """A cluster, by the properties of its admin clients and consumers. Reads only."""

    def __init__(self, admin: Mapping[str, str], consumer: Mapping[str, str]) -> None:
        """Connect. Raises RetriableError: no broker answers."""
        self._properties = dict(admin)
        self._consumer = dict(consumer)
        self.admin = KafkaAdmin(admin)
        self.admin.check_reachable(REACH_LIMIT_MS)

    def partition_counts(self) -> dict[str, int]:
        """Return topic -> number of partitions, of all topics."""
        with self.admin.client() as client:
            found: AdminClient = client
            return {name: len(topic.partitions) for name, topic in found.list_topics(timeout=LIMIT_S).topics.items()}

    def ranges(self, topics: Mapping[str, int]) -> dict[TopicPartition, range]:
        """Return the offsets that each partition of these topics holds now."""
        partitions = [TopicPartition(topic, n) for topic, count in topics.items() for n in range(count)]
        ends, begins = self.admin.end_offsets(partitions), self.admin.earliest_offsets(partitions)
        return {
            partition: range(begins[partition], max(begins[partition], ends[partition])) for partition in partitions
        }

    def groups(self) -> list[str]:
        """Return the consumer groups, sorted."""
        with self.admin.client() as client:
            found = answer_of(client, client.list_consumer_groups(request_timeout=LIMIT_S), LIMIT_S)
        if found.errors:
            raise connect_error(found.errors[0], "listing consumer groups")
        return sorted(group.group_id for group in found.valid)

    def committed(self, group: str) -> dict[TopicPartition, int]:
        """Return what a group has committed; nothing for one that is not there."""
        return KafkaGroupOffsets().committed(self._properties, group)

    def records(self, topic: str) -> list[LogRecord]:
        """Return every record of one of MirrorMaker's own topics, none when there is no such topic."""
        count = self.admin.partition_count(topic)
        return [] if count is None else read_topic(self._consumer, topic, count)

    def is_compacted(self, topic: str) -> bool:
        """Return whether old values of a key may be gone."""
        return "compact" in (self.admin.cleanup_policy(topic) or "")

    def keeps_time(self, topic: str) -> bool:
        """Return whether records keep their producers' time; else the broker's replaces it."""
        return (self.admin.topic_settings(topic) or {}).get("message.timestamp.type") != "LogAppendTime"

    def seen(self, partition: TopicPartition, offsets: range, with_time: bool) -> list[ComparedRecord]:
        """Return the records with these offsets, as digests. Raises TimedOutError, ConnectError."""
        if not offsets:
            return []
        # Records that are deleted meanwhile are skipped, whatever the flow's own consumers do.
        own = {"group.id": "connectrt-mirror-verify", **self._consumer, "auto.offset.reset": "earliest"}
        client = make_consumer(own, {"enable.partition.eof": "true"})
        try:
            client.assign([ClientPartition(partition.topic, partition.partition, offsets.start)])
            return self._read(client, offsets, with_time)
        finally:
            client.close()

    def _read(self, client: Any, offsets: range, with_time: bool) -> list[ComparedRecord]:
        found: list[ComparedRecord] = []
        received_s = time.monotonic()
        while True:
            messages = client.consume(BATCH_COUNT, 0.1)
            received_s = time.monotonic() if messages else received_s
            if time.monotonic() - received_s > STALLED_MS / 1000:
                raise TimedOutError(f"no data could be read for {STALLED_MS} ms")
            for message in messages:
                # At the end there may be less than was asked for: an open transaction, markers of closed ones.
                if end_of_read(message) is not None or message.offset() >= offsets.stop:
                    return found
                found.append(_seen(message, with_time))
            if found and found[-1].offset + 1 >= offsets.stop:
                return found


def _seen(message: Any, with_time: bool) -> ComparedRecord:
    key, value = message.key(), message.value()
    content = digest(key, value, message.headers() or (), message.timestamp()[1] if with_time else 0)
    return ComparedRecord(message.offset(), content, key, value is None)


# Facts about mirroring in a cluster's topics (Java ``MirrorClient``, KIP-382). Pure: names and records in.


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


def cluster_settings(raw: Mapping[str, str], alias: str | None, bootstrap: str | None) -> dict[str, str]:
    """Return the client settings of one cluster: of ``alias`` in a MirrorMaker's file, else of ``bootstrap`` alone.

    Raises BadConfigError: neither is set.
    """
    if bootstrap:
        return {**raw, "bootstrap.servers": bootstrap}
    if not alias:
        raise BadConfigError(
            {"--cluster": ["no cluster given. Use --cluster with one of the file, or --bootstrap host:port"]}
        )
    config = maker_config(raw)
    if alias not in config.clusters:
        raise BadConfigError({"--cluster": [f"{alias} is not one of {', '.join(config.clusters)}"]})
    return config.client_properties(alias)


def client_kind(settings: Mapping[str, str], kind: str) -> dict[str, str]:
    """Return the properties of an ``admin`` or ``consumer`` of a cluster with these settings."""
    shared = {name: value for name, value in settings.items() if name in CLIENT_NAMES}
    return {**shared, **prefixed(settings, f"{kind}.")}


def show_cluster(settings: Mapping[str, str], source: str | None, group: str | None, as_json: bool) -> int:
    """Print what the cluster's topics show; with ``source`` and ``group`` the group's offsets in this cluster too."""
    if group and not source:
        raise BadConfigError({"--source": ["whose group it is"]})
    cluster = MirroredCluster(client_kind(settings, "admin"), client_kind(settings, "consumer"))
    policy = replication_policy({SOURCE_ALIAS: source, **settings} if source else settings)
    topics = MirroredTopics(policy, frozenset(cluster.partition_counts()))
    upstream = sorted(topics.upstream_clusters())
    report: dict[str, Any] = {
        "upstream_clusters": {alias: topics.replication_hops(alias) for alias in upstream},
        "heartbeat_topics": sorted(topics.heartbeat_topics()),
        "checkpoint_topics": sorted(topics.checkpoint_topics()),
        "remote_topics": sorted(topics.remote_topics(source)),
    }
    if group and source:
        records = cluster.records(policy.checkpoints_topic(source))
        found = checkpoints((record.key, record.value) for record in records).get(group, {})
        report["remote_consumer_offsets"] = {
            str(partition): found[partition].downstream_offset for partition in sorted(found)
        }
    if as_json:
        sys.stdout.write(json.dumps(report, indent=2) + "\n")
    else:
        print_table(("what", "name", "hops or offset"), _rows(report))
    return 0


def _rows(report: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    rows = []
    for what, found in report.items():
        for name in found:
            rows.append((what.replace("_", " "), name, str(found[name]) if isinstance(found, dict) else ""))
    return rows
