"""Which checkpoints are written, and which group offsets are set at the target (Java ``MirrorCheckpointTask``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.connectors.mirror.filters import TopicFilter
from spark_connect_rt.connectors.mirror.offset_sync_store import OffsetSyncStore
from spark_connect_rt.connectors.mirror.policy import ReplicationPolicy
from spark_connect_rt.connectors.mirror.records import Checkpoint

IDLE_STATES = ("EMPTY", "DEAD")
"""States of a group at the target whose offsets may be set: it has no members, or it is not there yet."""


@dataclass(frozen=True, slots=True)
class GroupOffset:
    """What a group committed for one partition."""

    offset: int
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class Translation:
    """What turns offsets of the source into checkpoints."""

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

        ``last`` are the newest ones so far, by partition at the target. A checkpoint goes on at the target, never
        back, unless the group itself went back at the source.
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
        """Return the partition that a group goes on with at the target; a topic of the target's own gets its name."""
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
    """Return the offsets to commit for an idle group at the target: only where it goes forward.

    Args:
        checkpoints: the newest one of each partition at the target.
        committed: what the group has there; below zero counts as nothing.
    """
    return {
        place: checkpoint.downstream_offset
        for place, checkpoint in checkpoints.items()
        if committed.get(place, -1) < 0 or committed[place] < checkpoint.downstream_offset
    }
