"""Implements ``connectrt mirror verify``: reads both clusters of a flow, compares, prints, decides the exit code.

The order of reading matters while the flow continues: first the positions that have surely been copied, then the
target's ends, then the source's. So nothing at the target is unknown at the source, and what came in between counts as
not copied yet.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from spark_connect_rt.app.mirror.client import MirroredCluster, checkpoints
from spark_connect_rt.app.mirror.mirror_maker import maker_config
from spark_connect_rt.app.mirror.verify_report import (
    GROUP_COLUMNS,
    PARTITION_COLUMNS,
    FlowReport,
    GroupPartition,
    GroupReport,
    PartitionReport,
    as_json,
    group_rows,
    partition_rows,
)
from spark_connect_rt.app.mirror.verify_rules import (
    Compared,
    ComparedRecord,
    Sides,
    compare,
    contains,
    fail_over,
    total,
    windows,
)
from spark_connect_rt.app.offline.store_actions import print_table, say
from spark_connect_rt.base.exit_codes import EXIT_COUNTS_DISAGREE, EXIT_NOTHING_COMPARED
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.connectors.mirror.config import SOURCE, TARGET
from spark_connect_rt.connectors.mirror.filters import TopicSelection, group_filter, topic_filter
from spark_connect_rt.connectors.mirror.flow import Flow
from spark_connect_rt.connectors.mirror.maker_config import MirrorMakerConfig, SourceAndTarget
from spark_connect_rt.connectors.mirror.records import OffsetSync
from spark_connect_rt.errors import BadConfigError, DataError
from spark_connect_rt.topics.compacted_log import LogRecord
from spark_connect_rt.topics.offset_records import decode_key, decode_value

CONNECTOR, CHECKPOINTS = "MirrorSourceConnector", "MirrorCheckpointConnector"
WHOLE = None
"""A sample of all records."""


@dataclass(frozen=True, slots=True)
class VerifyResult:
    """The result of one reading of both clusters, in the order of the fields."""

    positions: Mapping[TopicPartition, int]  # of the source: the last record that has surely been copied
    downstream: Mapping[str, Mapping[TopicPartition, int]]  # group -> where it would resume at the target
    target: Mapping[TopicPartition, range]
    upstream: Mapping[str, Mapping[TopicPartition, int]]  # group -> where it is at the source
    source: Mapping[TopicPartition, range]
    syncs: Mapping[TopicPartition, list[OffsetSync]]


class FlowCheck:
    """One flow and its two clusters. Raises RetriableError when it is made: one of them does not answer."""

    def __init__(self, config: MirrorMakerConfig, flow: SourceAndTarget, sample: int | None) -> None:
        """Take the flow; ``sample``: about so many records of each partition are compared, WHOLE for all."""
        self._name, self._sample = str(flow), sample
        settings = config.connector_settings(flow, CONNECTOR)
        self._flow = Flow.of(settings)
        self._connector = settings["name"]
        self._topics = TopicSelection(
            topic_filter(settings),
            self._flow.policy,
            flow.source,
            flow.target,
            heartbeats=settings.get("heartbeats.replication.enabled", "true").lower() == "true",
        )
        self._groups = group_filter(config.connector_settings(flow, CHECKPOINTS))
        self._offset_topic = config.worker_config(flow)["offset.storage.topic"]
        self._sides = {side: self._cluster(side) for side in (SOURCE, TARGET)}
        self._source, self._target = self._sides[SOURCE], self._sides[TARGET]

    def report(self) -> FlowReport:
        """Read both clusters and return what differs, by partition and by group."""
        found = self._look()
        checks = [
            self._partition(partition, found) for partition in sorted(found.source) if partition.topic in self._topics
        ]
        return FlowReport(self._name, checks, [self._group(name, found) for name in sorted(found.upstream)])

    def _cluster(self, side: str) -> MirroredCluster:
        consumer = self._flow.client(side, "consumer", "verify")
        if side == TARGET:  # records that an exactly-once flow has aborted do not count
            consumer = {**consumer, "isolation.level": "read_committed"}
        return MirroredCluster(self._flow.client(side, "admin", "verify"), consumer)

    def _look(self) -> VerifyResult:
        names = [group for group in self._source.groups() if self._groups.should_replicate_group(group)]
        positions = positions_in(self._target.records(self._offset_topic), self._connector, self._flow.source_alias)
        downstream = self._downstream(names)
        target = self._target.ranges(self._target.partition_counts())
        upstream = {name: self._wanted(self._source.committed(name)) for name in names}
        counts = {name: count for name, count in self._source.partition_counts().items() if name in self._topics}
        source = self._source.ranges(counts)
        side, topic = self._flow.offset_syncs()
        syncs = syncs_in(self._sides[side].records(topic))
        return VerifyResult(positions, downstream, target, {k: v for k, v in upstream.items() if v}, source, syncs)

    def _wanted(self, committed: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        return {partition: offset for partition, offset in committed.items() if partition.topic in self._topics}

    def _downstream(self, names: list[str]) -> dict[str, dict[TopicPartition, int]]:
        """Return group -> remote partition -> offset: the committed one, else that of the newest checkpoint."""
        records = self._target.records(self._flow.checkpoints_topic())
        translated = checkpoints((record.key, record.value) for record in records)
        return {
            name: {
                **{place: checkpoint.downstream_offset for place, checkpoint in translated.get(name, {}).items()},
                **self._target.committed(name),
            }
            for name in names
        }

    def _remote(self, partition: TopicPartition) -> TopicPartition:
        return TopicPartition(self._flow.remote_topic(partition.topic), partition.partition)

    def _partition(self, partition: TopicPartition, found: VerifyResult) -> PartitionReport:
        remote, position = self._remote(partition), found.positions.get(partition)
        source, target = found.source[partition], found.target.get(remote)
        compared: Compared | None = None
        note = ""
        if target is None:
            copied = 0 if position is None else len(range(source.start, min(source.stop, position + 1)))
            compared, note = Compared(missing=copied, not_copied_yet=len(source) - copied), ("missing at the target")
        elif self._sample is WHOLE:
            compared = compare(self._read(partition, source, target, position))
        else:
            compared, note = self._sampled(partition, found, self._sample)
        return PartitionReport(partition, remote, source, target, position, compared, note)

    def _sampled(self, partition: TopicPartition, found: VerifyResult, records: int) -> tuple[Compared | None, str]:
        target, source = found.target[self._remote(partition)], found.source[partition]
        position = found.positions.get(partition)
        if not source:
            return Compared(), "empty"
        if self._source.is_compacted(partition.topic):
            return None, "compacted, so only --full compares it"
        copied = range(source.start, source.stop if position is None else min(source.stop, position + 1))
        chosen = windows(found.syncs.get(partition, []), records, copied, target)
        if not chosen or position is None:
            return None, "no offset syncs, so only --full compares it"
        parts = [contains(self._read(partition, window.source, window.target, position)) for window in chosen]
        return total([*parts, Compared(not_copied_yet=source.stop - copied.stop)]), "sample"

    def _read(self, partition: TopicPartition, source: range, target: range, position: int | None) -> Sides:
        """Return the records of both sides; the ranges may begin where the logs do, or later."""
        remote = self._remote(partition)
        with_time = self._target.keeps_time(remote.topic)
        theirs: list[ComparedRecord] = self._source.seen(partition, source, with_time)
        ours = self._target.seen(remote, target, with_time)
        compacted = self._source.is_compacted(partition.topic)
        return Sides(theirs, ours, position, source.start, target.start, compacted)

    def _group(self, name: str, found: VerifyResult) -> GroupReport:
        is_active = self._target.admin.group_is_active(name)
        parts = [
            self._fail_over(partition, offset, found.downstream[name].get(self._remote(partition)), found)
            for partition, offset in sorted(found.upstream[name].items())
            if partition in found.source
        ]
        return GroupReport(name, parts, is_active)

    def _fail_over(
        self, partition: TopicPartition, upstream: int, downstream: int | None, found: VerifyResult
    ) -> GroupPartition:
        source, target = found.source[partition], found.target.get(self._remote(partition))
        if downstream is None or target is None:  # an offset of a deleted topic is useless
            return GroupPartition(partition, upstream, None, None)
        left = range(max(upstream, source.start), source.stop)
        to_come = range(max(downstream, target.start), target.stop)
        outcome = fail_over(self._read(partition, left, to_come, found.positions.get(partition)))
        return GroupPartition(partition, upstream, downstream, outcome)


def positions_in(records: list[LogRecord], connector: str, source_alias: str) -> dict[TopicPartition, int]:
    """Return source partition -> offset of the last record copied, of an offset topic's records in their order."""
    found: dict[TopicPartition, int] = {}
    for record in records:
        try:
            (name, place), offset = decode_key(record.key), decode_value(record.value)
        except DataError:
            continue
        if name != connector or place is None or place.get("cluster") != source_alias:
            continue
        partition = TopicPartition(str(place["topic"]), int(place["partition"]))
        if offset is None:
            found.pop(partition, None)
        else:
            found[partition] = int(offset["offset"])
    return found


def syncs_in(records: list[LogRecord]) -> dict[TopicPartition, list[OffsetSync]]:
    """Return the offset syncs of each source partition, in their order."""
    found: dict[TopicPartition, list[OffsetSync]] = {}
    for record in records:
        try:
            sync = OffsetSync.decode(record.key, record.value)
        except DataError:
            continue
        found.setdefault(sync.partition, []).append(sync)
    return found


def verify(
    raw: Mapping[str, str], source: str | None, target: str | None, sample: int | None, as_document: bool
) -> int:
    """Compare the clusters of a file's replicating flows, or of some; return the exit code."""
    config = maker_config(raw)
    flows = [
        pair
        for pair in config.replicating()
        if (source or pair.source) == pair.source and (target or pair.target) == pair.target
    ]
    if not flows:
        raise BadConfigError({"--source, --target": ["no flow of the file replicates between these clusters"]})
    reports = [FlowCheck(config, flow, sample).report() for flow in flows]
    if as_document:
        sys.stdout.write(json.dumps([as_json(report) for report in reports], indent=1) + "\n")
    else:
        for report in reports:
            _print(report)
    if not all(report.is_good for report in reports):
        return EXIT_COUNTS_DISAGREE
    return 0 if all(report.records for report in reports) else EXIT_NOTHING_COMPARED


def _print(report: FlowReport) -> None:
    say(f"{report.flow}: {report.verdict}")
    print_table(PARTITION_COLUMNS, partition_rows(report))
    if report.groups:
        print_table(GROUP_COLUMNS, group_rows(report))
