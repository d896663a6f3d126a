"""Heartbeats into the target, which replication carries on: proof that records flow (``MirrorHeartbeatConnector``)."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

from spark_connect_rt.api.connector import SourceConnector, SourceOffset
from spark_connect_rt.api.data.schema import BYTES
from spark_connect_rt.api.records import SourceRecord
from spark_connect_rt.api.task import SourceTask
from spark_connect_rt.config.config_def import ConfigDef
from spark_connect_rt.connectors.mirror.config import MIRROR_HEARTBEAT, TARGET, interval_ms
from spark_connect_rt.connectors.mirror.connector_parts import WRITES_BESIDE, base_problems, create_internal_topic
from spark_connect_rt.connectors.mirror.flow import Flow
from spark_connect_rt.connectors.mirror.mirror_admin import MirrorAdmin
from spark_connect_rt.connectors.mirror.records import Heartbeat
from spark_connect_rt.connectors.mirror.source_offsets import ONLY_ZERO, check_offsets


class MirrorHeartbeatConnector(SourceConnector):
    """Writes heartbeats to a topic, which show that mirroring between two clusters works.

    Has one task write a heartbeat every ``emit.heartbeats.interval.seconds``.
    """

    def config_def(self) -> ConfigDef:
        """Return the declarations of this connector's settings."""
        return MIRROR_HEARTBEAT

    def task_class(self) -> type[Any]:
        """Return the class of its tasks."""
        return MirrorHeartbeatTask

    def validate(self, config: Mapping[str, str]) -> Mapping[str, list[str]]:
        """Return complaints about unavailable features."""
        return base_problems(config)

    def preview_obstacle(self, config: Mapping[str, str]) -> str | None:
        """Return why it cannot be previewed: its writes other than records cannot be rolled back."""
        return WRITES_BESIDE

    def start(self, config: Mapping[str, str]) -> None:
        """Create the topic, if that is possible."""
        super().start(config)
        self._values = MIRROR_HEARTBEAT.parse(config)
        flow = Flow.of(config)
        admin = MirrorAdmin(flow.client(TARGET, "admin", "heartbeats-target-admin"), self._values["admin.timeout.ms"])
        with closing(admin):
            topic, copies = flow.policy.heartbeats_topic(), self._values["heartbeats.topic.replication.factor"]
            create_internal_topic(admin, topic, copies)

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """Return one task's configuration, none where heartbeats are not wanted."""
        return [] if interval_ms(self._values, "emit.heartbeats") is None else [dict(self.config)]

    def alter_offsets(self, config: Mapping[str, str], offsets: Sequence[SourceOffset]) -> bool:
        """Check the new offsets, from which no task resumes. Raises ConnectError."""
        check_offsets(offsets, ("sourceClusterAlias", "targetClusterAlias"), numbered=False, only_zero=True)
        return True


class MirrorHeartbeatTask(SourceTask):
    """Writes a heartbeat of its flow at each interval."""

    def start(self, config: Mapping[str, str]) -> None:
        """Start; the first heartbeat follows after one interval."""
        self._flow = Flow.of(config)
        self._wait_s = (interval_ms(MIRROR_HEARTBEAT.parse(config), "emit.heartbeats") or 0) / 1000
        self._due_s = time.monotonic() + self._wait_s

    def poll(self) -> Sequence[SourceRecord] | None:
        """Return a heartbeat when one is due."""
        now = time.monotonic()
        if now < self._due_s:
            return None
        self._due_s = max(self._due_s + self._wait_s, now)
        beat = Heartbeat(self._flow.source_alias, self._flow.target_alias, time.time_ns() // 1_000_000)
        topic = self._flow.policy.heartbeats_topic()
        return [
            SourceRecord(
                beat.source_partition(), ONLY_ZERO, topic, beat.value(), BYTES, beat.key(), BYTES, 0, beat.timestamp_ms
            )
        ]

    def stop(self) -> None:
        """Do nothing: no client is open."""
