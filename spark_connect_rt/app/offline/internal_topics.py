"""A worker group's three internal topics from outside: read, described, written. For ``store`` and ``offsets``.

Owns: from a worker's properties file to topics and clients. Joins no group, starts no Spark.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from spark_connect_rt.app.offline.group_members import GroupMember, group_members, probe_status
from spark_connect_rt.app.offline.store_backup import KINDS, BackedUpTopic, StoreBackup
from spark_connect_rt.base.checked_lines import RawRecord
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.config.client_properties import log_client_properties
from spark_connect_rt.config.worker_settings import WorkerConfig
from spark_connect_rt.engine.process_plugins import distributed_config
from spark_connect_rt.errors import BadRequestError, RetriableError
from spark_connect_rt.group.compact.form import metadata_of
from spark_connect_rt.kafka.admin import TopicSpec
from spark_connect_rt.kafka.internal_topics import admin_of, internal_topics
from spark_connect_rt.kafka.logs.topic_records import read_topic, write_topic
from spark_connect_rt.topics.store_check import (
    Change,
    Stored,
    StoreFinding,
    TopicShape,
    live_records,
    record_findings,
    topic_findings,
)

REACH_LIMIT_MS = 15_000
WRITE_LIMIT_MS = 120_000


@dataclass(frozen=True, slots=True)
class Refusals:
    """Conditions that refuse a change unless the user allows them."""

    running_group: bool = True
    records: bool = True


class InternalTopics:
    """A group's internal topics: ``with InternalTopics(settings) as topics: topics.findings()``."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self.config: WorkerConfig = distributed_config(settings)
        self.specs: dict[str, TopicSpec] = internal_topics(self.config)
        self._admin = admin_of(self.config)

    def __enter__(self) -> Self:
        self._admin.check_reachable(REACH_LIMIT_MS)
        return self

    def __exit__(self, *_: object) -> None:
        self._admin.close()

    def group_runs(self) -> bool:
        """Return whether a worker is in the group now."""
        return self._admin.group_is_active(self.config.group.group_id)

    def worker_urls(self) -> list[str]:
        """Return the advertised REST URLs of the running workers, none without any.

        Raises RetriableError while the group rebalances: they are unknown then.
        """
        return self._protocol_and_urls()[1]

    def members(self) -> list[GroupMember]:
        """Return the running workers with their kinds, sorted by URL. Asks each worker if a Java worker may be there.

        Raises RetriableError while the group rebalances: they are unknown then.
        """
        protocol, urls = self._protocol_and_urls()
        return group_members(protocol, urls, probe_status)

    def _protocol_and_urls(self) -> tuple[str, list[str]]:
        found = self._admin.members(self.config.group.group_id)
        if found.metadata and not any(found.metadata):
            raise RetriableError(f"group {self.config.group.group_id} is rebalancing. Try again")
        urls = (metadata_of(found.protocol, metadata).url for metadata in found.metadata if metadata)
        return found.protocol, sorted(urls)

    def stored(self, kinds: Collection[str] = KINDS) -> Stored:
        """Return all records of all three topics, or of some: the others seem to be empty."""
        read = {kind: self.read(kind) if kind in kinds else () for kind in KINDS}
        return Stored(
            names={kind: spec.name for kind, spec in self.specs.items()},
            group_runs=self.group_runs(),
            exactly_once=self.config.group.fences_leader,
            **read,
        )

    def read(self, kind: str) -> Sequence[RawRecord]:
        """Return all records of one topic, none when there is no such topic."""
        name = self.specs[kind].name
        count = self._admin.partition_count(name)
        if count is None:
            return ()
        return read_topic(log_client_properties(self.config, kind).consumer, name, count)

    def findings(self) -> list[StoreFinding]:
        """Return everything that is wrong."""
        return [*self.shape_findings(), *record_findings(self.stored())]

    def shape_findings(self) -> list[StoreFinding]:
        """Return what is wrong with the topics whatever they hold."""
        brokers = self._admin.broker_count()
        return [finding for kind in KINDS for finding in topic_findings(self._shape(kind, brokers))]

    def backup(self, now_ms: int) -> StoreBackup:
        """Return what a restore needs.

        Of the config topic every record: there the order shows which tasks a commit means. Of the others each key's
        last.
        """
        topics = {}
        for kind, spec in self.specs.items():
            records = self.read(kind)
            kept = tuple(records if kind == "configs" else live_records(records))
            topics[kind] = BackedUpTopic(spec.name, self._admin.partition_count(spec.name) or 0, kept)
        return StoreBackup(self._admin.cluster_id(), self.config.group.group_id, now_ms, topics)

    def restore(self, backup: StoreBackup, refuse: Refusals, apply: bool) -> dict[str, tuple[str, int]]:
        """Write a backup's records into this file's topics; return topic and count of each kind.

        ``apply`` False: only check. Raises BadRequestError before anything is written.
        """
        if refuse.running_group:
            self.refuse_running_group()
        if refuse.records:
            for kind, spec in self.specs.items():
                if held := self._held(spec.name):
                    raise BadRequestError(
                        f"topic {spec.name} contains {held} records. Restore into new topics (their names are in "
                        f"the worker's file), or use --into-used-topics to append the backup's {kind}"
                    )
        if apply:
            for kind, spec in self.specs.items():
                self._admin.ensure_compacted(spec, 1 if kind == "configs" else None)
                self._write(kind, backup.topics[kind].records)
        return {kind: (spec.name, len(backup.topics[kind].records)) for kind, spec in self.specs.items()}

    def append(self, kind: str, changes: Sequence[Change], now_ms: int) -> None:
        """Append changes to one topic. Raises RetriableError."""
        self._write(kind, [(0, 0, key, value, now_ms) for key, value in changes])

    def refuse_running_group(self) -> None:
        """Raises BadRequestError while a worker is in the group: it would not see the change, or undo it."""
        if self.group_runs():
            raise BadRequestError(
                f"workers of group {self.config.group.group_id} are running and hold the old state. Stop them "
                "first, or use --while-running"
            )

    def _write(self, kind: str, records: Sequence[RawRecord]) -> None:
        producer = log_client_properties(self.config, kind).producer
        write_topic(producer, self.specs[kind].name, records, WRITE_LIMIT_MS)

    def _held(self, topic: str) -> int:
        partitions = [TopicPartition(topic, number) for number in range(self._admin.partition_count(topic) or 0)]
        begins, ends = self._admin.earliest_offsets(partitions), self._admin.end_offsets(partitions)
        return sum(ends[partition] - begins[partition] for partition in partitions)

    def _shape(self, kind: str, brokers: int) -> TopicShape:
        spec = self.specs[kind]
        described = self._admin.describe_topic(spec.name)
        if described is None:
            return TopicShape(kind, spec.name, (), (), None, spec.replication_factor, brokers)
        policy = self._admin.cleanup_policy(spec.name)
        return TopicShape(
            kind, spec.name, described.replicas, described.in_sync, policy, spec.replication_factor, brokers
        )
