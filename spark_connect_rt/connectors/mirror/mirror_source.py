"""Topics of one cluster on another, with their partitions, settings and ACLs (Java ``MirrorSourceConnector``).

Configurations, task configurations and offsets are Java's byte for byte: connectors move both ways between workers.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from typing import Any

from spark_connect_rt.api.connector import ExactlyOnceSupport, SourceConnector, SourceOffset
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.config.config_def import ConfigDef
from spark_connect_rt.connectors.mirror.config import EMIT_OFFSET_SYNCS, MIRROR_SOURCE, SOURCE, TARGET, interval_ms
from spark_connect_rt.connectors.mirror.connector_parts import (
    WRITES_BESIDE,
    Rounds,
    create_internal_topic,
    done,
    source_problems,
)
from spark_connect_rt.connectors.mirror.filters import TopicSelection, property_filter, topic_filter
from spark_connect_rt.connectors.mirror.flow import Flow, reads_committed
from spark_connect_rt.connectors.mirror.mirror_admin import MirrorAdmin
from spark_connect_rt.connectors.mirror.mirror_source_task import MirrorSourceTask
from spark_connect_rt.connectors.mirror.source_offsets import CLUSTER, TOPIC, check_offsets, source_tasks
from spark_connect_rt.connectors.mirror.topic_sync import (
    acls_to_sync,
    missing_partitions,
    settings_of_new,
    settings_to_sync,
)
from spark_connect_rt.connectors.topics.log_policy import fails
from spark_connect_rt.connectors.topics.moved_logs_config import ON_RECREATED
from spark_connect_rt.errors import ConnectError

TARGET_LOOK_MS = 10_000  # between two looks at the ids of the target's topics
FIRST_LOOK_AGAIN_MS = 5_000  # until both clusters have answered once
log = logging.getLogger(__name__)


class MirrorSourceConnector(SourceConnector):
    """Mirrors topics of another Kafka cluster, with their partitions, settings and ACLs.

    Creates and configures the target's topics, and divides the source's partitions among tasks.
    """

    def config_def(self) -> ConfigDef:
        """Declare the settings; ``source.cluster.*``, ``target.cluster.*`` and ``consumer.*`` go to the clients."""
        return MIRROR_SOURCE

    def task_class(self) -> type[Any]:
        """Return the class of its tasks."""
        return MirrorSourceTask

    def validate(self, config: Mapping[str, str]) -> Mapping[str, list[str]]:
        """Return complaints about unavailable features, and about settings that contradict each other."""
        return source_problems(config)

    def preview_obstacle(self, config: Mapping[str, str]) -> str | None:
        """Return why it cannot be previewed: its writes other than records cannot be rolled back."""
        return WRITES_BESIDE

    def start(self, config: Mapping[str, str]) -> None:
        """Check both clusters, then again periodically. A cluster that does not answer is asked again soon."""
        super().start(config)
        self._values = values = MIRROR_SOURCE.parse(config)
        self._partitions: list[TopicPartition] = []
        self._topics: FlowTopics | None = None
        self._rounds = Rounds("mirror-source-rounds", self._close_topics)
        if not values["enabled"]:
            return
        self._topics = topics = FlowTopics(config, values)
        if not done("a first poll of the topics", self._first_look):
            self._rounds.add("a first poll of the topics", self._look_until_seen, FIRST_LOOK_AGAIN_MS)
        acls, configs = interval_ms(values, "sync.topic.acls"), interval_ms(values, "sync.topic.configs")
        self._rounds.add("copying ACLs", topics.sync_acls, acls, at_once=True)
        self._rounds.add("copying settings of topics", topics.sync_settings, configs, at_once=True)
        self._rounds.add("looking for topics", self._look, interval_ms(values, "refresh.topics"))
        self._rounds.add("looking at the target's topics", self._look_at_target, TARGET_LOOK_MS, at_once=True)
        self._rounds.start()

    def stop(self) -> None:
        """End the thread that runs periodic jobs."""
        if hasattr(self, "_rounds"):
            self._rounds.stop()

    def _close_topics(self) -> None:
        if self._topics is not None:
            self._topics.close()

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """Divide the partitions among tasks one by one; no task is without any."""
        return source_tasks(self.config, self._partitions, max_tasks)

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport:
        """Offsets are exact; records are where open and aborted transactions are not read."""
        return ExactlyOnceSupport.SUPPORTED if reads_committed(config) else ExactlyOnceSupport.UNSUPPORTED

    def alter_offsets(self, config: Mapping[str, str], offsets: Sequence[SourceOffset]) -> bool:
        """Check the new offsets. Raises ConnectError."""
        check_offsets(offsets, (CLUSTER, TOPIC), numbered=True, only_zero=False)
        return True

    def _first_look(self) -> None:
        assert self._topics is not None
        self._topics.create_offset_syncs_topic()
        self._partitions, _ = self._topics.look()
        self._seen = True

    def _look_until_seen(self) -> None:
        if not hasattr(self, "_seen"):
            self._first_look()
            self.context.request_task_reconfiguration()

    def _look_at_target(self) -> None:
        """Notice topics of the target that were deleted and created again, before any record is copied to them."""
        assert self._topics is not None
        for topic in self._topics.recreated():
            text = (
                f"topic {topic} at the target was deleted and created again. Only new records are copied. To copy all "
                "of them, reset the connector's offsets."
            )
            log.warning("%s", text)
            self.context.record_event(text, topic=topic)
            if fails(self._values, recreated=True):
                self.context.raise_error(ConnectError(f"{text} (setting {ON_RECREATED}=fail)"))

    def _look(self) -> None:
        assert self._topics is not None
        found, made = self._topics.look()
        if (made or found != self._partitions) and not self._rounds.stopped:
            log.info("partitions to copy: %d, so far %d", len(found), len(self._partitions))
            self._partitions = found
            self.context.request_task_reconfiguration()


class FlowTopics:
    """The topics of a flow in both clusters. One thread."""

    def __init__(self, config: Mapping[str, str], values: Mapping[str, Any]) -> None:
        """Take the connector's configuration, as text and parsed."""
        self._flow = flow = Flow.of(config)
        self._values = values
        self._settings = property_filter(config)
        heartbeats = values["heartbeats.replication.enabled"]
        aliases = flow.source_alias, flow.target_alias
        self._selection = TopicSelection(topic_filter(config), flow.policy, *aliases, heartbeats)
        self._limit_ms = values["admin.timeout.ms"]
        self._source = MirrorAdmin(flow.client(SOURCE, "admin", "replication-source-admin"), self._limit_ms)
        self._target = MirrorAdmin(flow.client(TARGET, "admin", "replication-target-admin"), self._limit_ms)
        self._target_ids: dict[str, str] = {}  # topic at the target -> its id (KIP-516)
        self._copied: set[str] = set()  # topics of the source that are at the target, too
        self._no_authorizer = False
        self._left_out: list[str] | None = None  # for loops; None: not looked yet

    def create_offset_syncs_topic(self) -> None:
        """Create the topic of offset syncs where they are wanted, if that is possible."""
        if self._values[EMIT_OFFSET_SYNCS]:
            side, topic = self._flow.offset_syncs()
            admin = MirrorAdmin(self._flow.client(side, "admin", f"offset-syncs-{side}-admin"), self._limit_ms)
            with closing(admin):
                create_internal_topic(admin, topic, self._values["offset-syncs.topic.replication.factor"])

    def close(self) -> None:
        """Close the clients of both clusters."""
        self._source.close()
        self._target.close()

    def look(self) -> tuple[list[TopicPartition], bool]:
        """Return the partitions to copy, and whether the target lacked any. Missing ones are created.

        Raises ConnectError.
        """
        found = self._source.topics()
        self._warn_of_loops(found)
        source = {name: count for name, count in found.items() if name in self._selection}
        target = self._target.topics()
        missing = missing_partitions(source, target, self._flow.policy, self._flow.source_alias)
        known = self._source.settings(missing.topics)
        new = {
            name: (source[topic], settings_of_new(known.get(topic, ()), self._settings))
            for topic, name in missing.topics.items()
        }
        self._target.create_topics(new, self._values["replication.factor"])
        self._target.grow(missing.grown)
        self._copied = set(source)
        partitions = [TopicPartition(name, number) for name, count in source.items() for number in range(count)]
        return sorted(partitions), bool(missing.topics or missing.grown)

    def recreated(self) -> list[str]:
        """Return the topics of the target that are other ones than at the last call. Raises ConnectError."""
        names = sorted(map(self._flow.remote_topic, self._copied))
        found = self._target.topic_ids(names)
        changed = [name for name, topic_id in found.items() if self._target_ids.get(name, topic_id) != topic_id]
        self._target_ids = {name: self._target_ids[name] for name in names if name in self._target_ids} | found
        return changed

    def _warn_of_loops(self, topics: Iterable[str]) -> None:
        """Log once that both sides are one cluster, and which topics are left out because they came from the source."""
        flow = self._flow
        if self._left_out is None and (cluster := self._source.cluster_id()) == self._target.cluster_id():
            log.warning(
                "source.cluster.bootstrap.servers and target.cluster.bootstrap.servers are the same cluster, %s: "
                "%s and %s are two names of it, and its topics are copied onto itself",
                cluster,
                flow.source_alias,
                flow.target_alias,
            )
        left_out = self._selection.own_copies(topics)
        if new := sorted(set(left_out) - set(self._left_out or ())):
            log.warning(
                "not copied: %s. A topic with the alias %s was copied from this cluster, and would be copied in a loop",
                ", ".join(new),
                flow.source_alias,
            )
        self._left_out = left_out

    def sync_settings(self) -> None:
        """Make the settings of remote topics those of their originals. Raises ConnectError."""
        found = self._source.settings(self._copied)
        self._target.set_settings(
            {
                self._flow.remote_topic(name): settings_to_sync(settings, self._settings)
                for name, settings in found.items()
            }
        )

    def sync_acls(self) -> None:
        """Copy ACLs; a source without an authorizer has none. Raises ConnectError."""
        acls = self._source.topic_acls()
        if acls is not None:
            wanted = acls_to_sync(acls, self._selection, self._flow.policy, self._flow.source_alias)
            self._target.create_acls(wanted)
        elif not self._no_authorizer:
            self._no_authorizer = True
            log.info("the source has no authorizer, so no ACLs are copied. Set sync.topic.acls.enabled=false")
