"""Writes checkpoints, and sets the offsets of groups without members at the target (Java ``MirrorCheckpointTask``).

Nothing is translated before both topics were read to their ends: until then a group could be sent back.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from spark_connect_rt.api.data.schema import BYTES
from spark_connect_rt.api.records import SourceRecord
from spark_connect_rt.api.task import SourceTask
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.connectors.mirror.config import MIRROR_CHECKPOINT, SOURCE, TARGET, interval_ms
from spark_connect_rt.connectors.mirror.filters import TopicFilter, topic_filter
from spark_connect_rt.connectors.mirror.flow import Flow
from spark_connect_rt.connectors.mirror.mirror_admin import MirrorAdmin
from spark_connect_rt.connectors.mirror.offset_syncs import OffsetSyncStore
from spark_connect_rt.connectors.mirror.policy import ReplicationPolicy
from spark_connect_rt.connectors.mirror.records import Checkpoint, OffsetSync
from spark_connect_rt.connectors.mirror.source_offsets import ONLY_ZERO, groups_of
from spark_connect_rt.errors import ConnectError, DataError
from spark_connect_rt.kafka.group_offsets import KafkaGroupOffsets
from spark_connect_rt.kafka.interfaces import GroupInUseError
from spark_connect_rt.kafka.reading.batch_consumer import KafkaBatchConsumer

# Which checkpoints are written, and which group offsets are set at the target (Java ``MirrorCheckpointTask``).


IDLE_STATES = ("EMPTY", "DEAD")
"""States of a group at the target whose offsets may be set: it has no members, or it is not there yet."""


@dataclass(frozen=True, slots=True)
class GroupOffset:
    """The committed offset of a group for one partition."""

    offset: int
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class Translation:
    """Translates offsets of the source into checkpoints."""

    policy: ReplicationPolicy
    source_alias: str
    target_alias: str
    topics: TopicFilter
    syncs: OffsetSyncStore

    def checkpoints(
        self,
        group: str,
        upstream: Mapping[TopicPartition, GroupOffset],
        last: Mapping[TopicPartition, Checkpoint],
    ) -> list[Checkpoint]:
        """Return the checkpoints to write for a group.

        ``last`` are the newest ones so far, by partition at the target. A checkpoint only moves forward at the target,
        unless the group itself went back at the source.
        """
        found = []
        for partition, committed in sorted(upstream.items()):
            if not self.topics.should_replicate_topic(partition.topic):
                continue
            translated = self.syncs.translate_downstream(partition, committed.offset)
            if translated is None or translated < 0:
                continue
            place = self._at_target(partition)
            checkpoint = Checkpoint(group, place, committed.offset, translated, committed.metadata)
            if _is_newer(checkpoint, last.get(place)):
                found.append(checkpoint)
        return found

    def _at_target(self, partition: TopicPartition) -> TopicPartition:
        """Return the partition in which a group resumes at the target.

        A topic that came from the target gets its name there.
        """
        if self.policy.topic_source(partition.topic) == self.target_alias:
            return TopicPartition(self.policy.original_topic(partition.topic), partition.partition)
        return TopicPartition(self.policy.format_remote_topic(self.source_alias, partition.topic), partition.partition)


def _is_newer(checkpoint: Checkpoint, last: Checkpoint | None) -> bool:
    if last is None or checkpoint.upstream_offset < last.upstream_offset:
        return True
    return checkpoint.downstream_offset > last.downstream_offset


def offsets_to_set(
    checkpoints: Mapping[TopicPartition, Checkpoint], committed: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Return the offsets to commit for an idle group at the target: only those that move forward.

    Args:
        checkpoints: the newest one of each partition at the target.
        committed: the group's offsets there; below zero counts as nothing.
    """
    return {
        place: checkpoint.downstream_offset
        for place, checkpoint in checkpoints.items()
        if committed.get(place, -1) < 0 or committed[place] < checkpoint.downstream_offset
    }


POLL_MS, MOST_RECORDS = 50, 5_000
IDLE_WAIT_MS = 200
OPEN_AGAIN_S = 1.0  # until a topic is there
KeyAndValue = tuple[bytes | None, bytes | None]
log = logging.getLogger(__name__)


class MirrorCheckpointTask(SourceTask):
    """Translates and writes checkpoints of the groups that its configuration names."""

    def start(self, config: Mapping[str, str]) -> None:
        """Begin to read existing checkpoints and offset syncs; ``poll`` continues it."""
        values = MIRROR_CHECKPOINT.parse(config)
        self._flow = flow = Flow.of(config)
        self._groups = groups_of(config)
        self._last: dict[str, dict[TopicPartition, Checkpoint]] = {group: {} for group in self._groups}
        self._topics = topic_filter(config)
        self._clusters = {side: flow.client(side, "admin", f"checkpoint-{side}-admin") for side in (SOURCE, TARGET)}
        self._offsets = KafkaGroupOffsets(values["admin.timeout.ms"])
        self._target = MirrorAdmin(self._clusters[TARGET], values["admin.timeout.ms"])
        self._emit = _Turn(interval_ms(values, "emit.checkpoints"))
        self._set = _Turn(interval_ms(values, "sync.group.offsets"))
        at_target = flow.client(TARGET, "consumer", "checkpoints-target-consumer")
        self._checkpoints: _TopicReader | None = _TopicReader(at_target, flow.checkpoints_topic())
        side, topic = flow.offset_syncs()
        self._syncs = _TopicReader(flow.client(side, "consumer", f"offset-syncs-{side}-consumer"), topic)
        self._translation: Translation | None = None
        self._said_stale: set[TopicPartition] = set()

    def poll(self) -> Sequence[SourceRecord] | None:
        """Return the checkpoints that are due."""
        if self._checkpoints is not None:
            self._read_checkpoints(self._checkpoints)
            return None
        if not self._follow_syncs():
            return None
        records = list(self._due_checkpoints()) if self._emit.has_come() else None
        if self._set.has_come():
            self._set_offsets_of_idle_groups()
        return records

    def idle_wait_ms(self) -> int:
        """Return a wait that is short compared with any interval."""
        return IDLE_WAIT_MS

    def stop(self) -> None:
        """Close the clients of both clusters."""
        for client in (getattr(self, name, None) for name in ("_checkpoints", "_syncs", "_target")):
            if client is not None:
                client.close()

    def _read_checkpoints(self, reader: _TopicReader) -> None:
        """Read the checkpoints of earlier tasks, so that groups do not go back. Invalid ones are left out."""
        readable = True
        try:
            for key, value in reader.read():
                self._remember(key, value)
            if not reader.at_end:
                return
        except ConnectError as error:  # as Java, for one without the right to read them
            readable = False
            log.warning("existing checkpoints cannot be read, so only new offset syncs are used: %s", error)
        reader.close()
        self._checkpoints = None
        store = OffsetSyncStore(must_read_to_end=not readable)
        flow = self._flow
        self._translation = Translation(flow.policy, flow.source_alias, flow.target_alias, self._topics, store)

    def _remember(self, key: bytes | None, value: bytes | None) -> None:
        try:
            checkpoint = Checkpoint.decode(key, value)
        except DataError as error:
            log.warning("skipping an invalid record of %s: %s", self._flow.checkpoints_topic(), error)
            return
        if checkpoint.group in self._last:
            self._last[checkpoint.group][checkpoint.partition] = checkpoint

    def _follow_syncs(self) -> bool:
        """Process new offset syncs; return whether the topic was read to its end once."""
        assert self._translation is not None
        store = self._translation.syncs
        try:
            for key, value in self._syncs.read():
                store.add(OffsetSync.decode(key, value))
        except ConnectError as error:
            log.warning("offset syncs will be read again: %s", error)
        if self._syncs.at_end:
            store.loaded()
        return self._syncs.at_end

    def _due_checkpoints(self) -> Iterator[SourceRecord]:
        assert self._translation is not None
        now_ms = time.time_ns() // 1_000_000
        for group in self._groups:
            try:
                committed = self._offsets.committed_with_metadata(self._clusters[SOURCE], group)
            except ConnectError as error:
                log.warning("group %s gets no checkpoint this time: %s", group, error)
                continue
            upstream = {place: GroupOffset(*found) for place, found in committed.items()}
            for checkpoint in self._translation.checkpoints(group, upstream, self._last[group]):
                self._last[group][checkpoint.partition] = checkpoint
                yield self._record(checkpoint, now_ms)

    def _record(self, checkpoint: Checkpoint, now_ms: int) -> SourceRecord:
        topic = self._flow.checkpoints_topic()
        return SourceRecord(
            checkpoint.source_partition(),
            ONLY_ZERO,
            topic,
            checkpoint.value(),
            BYTES,
            checkpoint.key(),
            BYTES,
            0,
            now_ms,
        )

    def _set_offsets_of_idle_groups(self) -> None:
        try:
            states, counts = self._target.groups(), self._target.topics()
        except ConnectError as error:
            log.warning("offsets of groups are not written this time: %s", error)
            return
        for group in self._groups:
            if self._last[group] and states.get(group, "DEAD") in IDLE_STATES:
                self._set_offsets(group, counts)

    def _set_offsets(self, group: str, counts: Mapping[str, int]) -> None:
        """Move a group's offsets at the target forward; ``counts``: the topics there and how many partitions they have.

        A checkpoint of a missing topic, as of an earlier replication policy, does not delay the others.
        """
        target = self._clusters[TARGET]
        there = {
            place: checkpoint
            for place, checkpoint in self._last[group].items()
            if place.partition < counts.get(place.topic, 0)
        }
        stale = {place for place in self._last[group] if place not in there} - self._said_stale
        if stale:
            self._said_stale |= stale
            log.warning(
                "group %s: no checkpoints for partitions that the target does not have: %s",
                group,
                ", ".join(map(str, sorted(stale))),
            )
        try:
            wanted = offsets_to_set(there, self._offsets.committed(target, group))
            if wanted:
                self._offsets.alter(target, group, wanted)
        except GroupInUseError as error:
            log.warning("group %s is active at the target now: %s", group, error)
        except ConnectError as error:
            log.warning("the offsets of group %s are not written this time: %s", group, error)


class _Turn:
    """When something is due: as soon as it is asked for, then every interval; never if there is none."""

    def __init__(self, wait_ms: int | None) -> None:
        self._wait_s = None if wait_ms is None else wait_ms / 1000
        self._due_s = time.monotonic()

    def has_come(self) -> bool:
        now = time.monotonic()
        if self._wait_s is None or now < self._due_s:
            return False
        self._due_s = now + self._wait_s
        return True


class _TopicReader:
    """Partition 0 of an internal topic, from its beginning; opened when it is there."""

    def __init__(self, properties: Mapping[str, str], topic: str) -> None:
        self._properties, self._place = dict(properties), TopicPartition(topic, 0)
        self._consumer: KafkaBatchConsumer | None = None
        self._open_at_s = 0.0
        self._end = 0
        self.at_end = False  # has been there once

    def read(self) -> Iterator[KeyAndValue]:
        """Yield the records so far. Raises ConnectError; the next call tries again."""
        consumer = self._opened()
        batch = None if consumer is None else consumer.poll(MOST_RECORDS, POLL_MS)
        if batch is not None:
            keys = batch.column("key").to_pylist() if "key" in batch.schema.names else [None] * batch.num_rows
            yield from zip(keys, batch.column("value").to_pylist(), strict=True)
        if consumer is not None and not self.at_end:
            self.at_end = consumer.position(self._place) >= self._end

    def _opened(self) -> KafkaBatchConsumer | None:
        if self._consumer is None and time.monotonic() >= self._open_at_s:
            self._open_at_s = time.monotonic() + OPEN_AGAIN_S
            consumer = KafkaBatchConsumer({**self._properties, "auto.offset.reset": "earliest"})
            try:
                consumer.assign({self._place: -1})
                self._end = consumer.end_offsets([self._place])[self._place]
            except ConnectError:
                consumer.close()
                raise
            self._consumer = consumer
        return self._consumer

    def close(self) -> None:
        """Close the consumer, if it is open."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None
