"""Where consumer groups resume at the other cluster (Java ``MirrorCheckpointConnector``)."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

from spark_connect_rt.api.connector import SourceConnector, SourceOffset
from spark_connect_rt.config.config_def import ConfigDef
from spark_connect_rt.connectors.mirror.config import EMIT_CHECKPOINTS, MIRROR_CHECKPOINT, SOURCE, TARGET, interval_ms
from spark_connect_rt.connectors.mirror.connector_parts import (
    WRITES_BESIDE,
    Rounds,
    checkpoint_problems,
    create_internal_topic,
    done,
)
from spark_connect_rt.connectors.mirror.filters import group_filter, topic_filter
from spark_connect_rt.connectors.mirror.flow import Flow
from spark_connect_rt.connectors.mirror.mirror_admin import MirrorAdmin
from spark_connect_rt.connectors.mirror.mirror_checkpoint_task import MirrorCheckpointTask
from spark_connect_rt.connectors.mirror.source_offsets import GROUP, TOPIC, check_offsets, checkpoint_tasks
from spark_connect_rt.kafka.group_offsets import KafkaGroupOffsets

log = logging.getLogger(__name__)


class MirrorCheckpointConnector(SourceConnector):
    """Translates the offsets of consumer groups, so that they can continue on the mirror cluster.

    Finds the groups that read replicated topics and divides them among tasks.
    """

    def config_def(self) -> ConfigDef:
        """Return the declarations of this connector's settings."""
        return MIRROR_CHECKPOINT

    def task_class(self) -> type[Any]:
        """Return the class of its tasks."""
        return MirrorCheckpointTask

    def validate(self, config: Mapping[str, str]) -> Mapping[str, list[str]]:
        """Return complaints about unavailable features, and about settings that contradict each other."""
        return checkpoint_problems(config)

    def preview_obstacle(self, config: Mapping[str, str]) -> str | None:
        """Return why it cannot be previewed: its writes other than records cannot be rolled back."""
        return WRITES_BESIDE

    def start(self, config: Mapping[str, str]) -> None:
        """Create the topic and find the groups, then search for new ones periodically."""
        super().start(config)
        self._values = values = MIRROR_CHECKPOINT.parse(config)
        self._groups: list[str] | None = None
        self._source: MirrorAdmin | None = None
        self._rounds = Rounds("mirror-checkpoint-rounds", self._close_source)
        if not values["enabled"]:
            return
        self._flow = flow = Flow.of(config)
        self._wanted, self._topics = group_filter(config), topic_filter(config)
        limit_ms = values["admin.timeout.ms"]
        target = MirrorAdmin(flow.client(TARGET, "admin", "checkpoint-target-admin"), limit_ms)
        with closing(target):
            create_internal_topic(target, flow.checkpoints_topic(), values["checkpoints.topic.replication.factor"])
        self._properties = flow.client(SOURCE, "admin", "checkpoint-source-admin")
        self._source = MirrorAdmin(self._properties, limit_ms)
        self._offsets = KafkaGroupOffsets(limit_ms)
        done("a first poll of the groups", self._first_look)
        self._rounds.add("looking for groups", self._look, interval_ms(values, "refresh.groups"))
        self._rounds.start()

    def stop(self) -> None:
        """End the thread that runs periodic jobs."""
        if hasattr(self, "_rounds"):
            self._rounds.stop()

    def _close_source(self) -> None:
        if self._source is not None:
            self._source.close()

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """Divide the groups among tasks in neighbourhoods. Raises RetriableError: the source has not answered yet."""
        if not (self._values["enabled"] and self._values[EMIT_CHECKPOINTS]):
            return []
        if self._groups is None:
            self._first_look()
        return checkpoint_tasks(self.config, self._groups or [], max_tasks)

    def alter_offsets(self, config: Mapping[str, str], offsets: Sequence[SourceOffset]) -> bool:
        """Check the new offsets, from which no task resumes. Raises ConnectError."""
        check_offsets(offsets, (GROUP, TOPIC), numbered=True, only_zero=True)
        return True

    def _first_look(self) -> None:
        self._groups = self._find()

    def _look(self) -> None:
        found = self._find()
        if found != self._groups and not self._rounds.stopped:
            log.info("groups to write checkpoints of: %d, so far %d", len(found), len(self._groups or ()))
            self._groups = found
            self.context.request_task_reconfiguration()

    def _find(self) -> list[str]:
        """Return the wanted groups that have an offset for a wanted topic. Raises ConnectError."""
        assert self._source is not None
        wanted = [group for group in self._source.groups() if self._wanted.should_replicate_group(group)]
        return sorted(filter(self._reads_a_wanted_topic, wanted))

    def _reads_a_wanted_topic(self, group: str) -> bool:
        places = self._offsets.committed(self._properties, group)
        return any(self._topics.should_replicate_topic(place.topic) for place in places)
