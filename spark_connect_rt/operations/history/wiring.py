"""The history of one worker put together: its topics, or its file, and how much of it is kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.config.client_properties import connector_admin_properties, log_client_properties
from spark_connect_rt.config.worker_settings import StandaloneConfig, WorkerConfig
from spark_connect_rt.errors import ConnectError
from spark_connect_rt.kafka.admin import KafkaAdmin, TopicSpec
from spark_connect_rt.kafka.internal_topics import SHORT_HEAD, topic_source
from spark_connect_rt.operations.events.memory import EventMemory
from spark_connect_rt.operations.history.offset_timeline import OffsetTimelineStore
from spark_connect_rt.operations.history.recorder import Recorder
from spark_connect_rt.operations.history.service import RangeProblems, WorkerHistory
from spark_connect_rt.operations.history.settings import DeclaredByPlugins
from spark_connect_rt.operations.history.store import HistoryStore
from spark_connect_rt.operations.history.timeline_keeper import OffsetTimelineKeeper
from spark_connect_rt.runtime.group_events import NameClient, no_client
from spark_connect_rt.runtime.herder.dependencies import HerderDependencies
from spark_connect_rt.runtime.herder.worker_views import WorkerViews
from spark_connect_rt.topics.compacted_log import LogSource
from spark_connect_rt.topics.local_log import LocalCompactedLog
from spark_connect_rt.topics.offset_changes import OffsetPair, as_sink_offsets
from spark_connect_rt.topics.offset_file import OffsetFile

# Whether a sink can resume at an offset: that records are there, of the connector's own cluster. Blocks.


LIMIT_MS = 10_000


class SinkRanges:
    """Asks the cluster of a connector."""

    def __init__(self, deps: HerderDependencies) -> None:
        self._deps = deps

    def __call__(self, connector: str, pairs: Sequence[OffsetPair]) -> Sequence[str]:
        """Return why a sink cannot resume at these offsets; nothing for a source: only it knows."""
        wanted = as_sink_offsets([pair for pair in pairs if pair[1] is not None])
        config = self._deps.config_store.snapshot().connector_config(connector)
        if not wanted or config is None:
            return ()
        properties = connector_admin_properties(self._deps.settings.worker, config.written(), connector, 0)
        admin = KafkaAdmin(self._deps.resolve(properties))
        places = {TopicPartition(topic, partition): offset for topic, partition, offset in wanted}
        try:
            first, end = admin.earliest_offsets(places, LIMIT_MS), admin.end_offsets(places, LIMIT_MS)
        except ConnectError as error:
            return (f"the range of available records is unknown: {error}",)
        finally:
            admin.close()
        problems = []
        for place, offset in sorted(places.items()):
            if offset < first[place]:
                problems.append(
                    f"{place.topic}-{place.partition}: records before {first[place]} are deleted, so it cannot "
                    f"start at {offset}"
                )
            elif offset > end[place]:
                problems.append(f"{place.topic}-{place.partition}: it ends at {end[place]}, before {offset}")
        return problems


def history_topics(config: WorkerConfig) -> tuple[TopicSpec, TopicSpec] | None:
    """Return the topics of changes and of the offset history; None: a standalone worker has none."""
    if "config" not in config.storage:
        return None
    configs = config.storage["config"]
    name = config.management.connectrt_history_storage_topic or f"{configs.name}-history"
    return (
        TopicSpec(name, 1, configs.replication_factor, SHORT_HEAD),
        TopicSpec(f"{name}-course", 1, configs.replication_factor, SHORT_HEAD),
    )


def worker_history(
    config: WorkerConfig,
    worker_id: str,
    deps: HerderDependencies,
    views: WorkerViews,
    admin: KafkaAdmin,
) -> WorkerHistory | None:
    """Return the history of a worker, not started; None: its file wants none."""
    if config.management.connectrt_history_changes_max == 0:
        return None
    topics = history_topics(config)
    if topics is None:
        sources = _local_sources(config)
    else:
        clients = log_client_properties(config, "history")
        sources = (topic_source(topics[0], admin, clients), topic_source(topics[1], admin, clients))
    return history_over(
        sources,
        worker_id,
        deps,
        views,
        is_alone=topics is None,
        range_problems=SinkRanges(deps),
        name_client=deps.record_event.name_client if isinstance(deps.record_event, EventMemory) else no_client,
    )


def history_over(
    sources: tuple[LogSource, LogSource],
    worker_id: str,
    deps: HerderDependencies,
    views: WorkerViews,
    *,
    is_alone: bool,
    range_problems: RangeProblems,
    course_period_s: float = 60.0,
    name_client: NameClient = no_client,
) -> WorkerHistory:
    """Return a history over logs of changes and of the course; it watches the stores of ``deps`` from now on."""
    settings = deps.settings.worker.management
    now_ms: Callable[[], int] = deps.clock.now_ms
    store = HistoryStore(
        sources[0], settings.connectrt_history_changes_max, settings.connectrt_history_age_max_ms, now_ms
    )
    declared = DeclaredByPlugins(deps)
    recorder = Recorder(worker_id, store, declared, views.is_leader, now_ms, alone=is_alone, name_client=name_client)
    deps.config_store.watch(recorder.config_changed)
    deps.offset_notes.listen(recorder.offsets_changed)
    course = OffsetTimelineKeeper(
        OffsetTimelineStore(sources[1]),
        views.list_connectors,
        lambda name: views.connector_type(name) == "sink",
        views.offsets_as_read,
        views.is_leader,
        now_ms,
        settings.connectrt_history_course_max_bytes,
        course_period_s,
    )
    return WorkerHistory(store, recorder, course, declared, now_ms, range_problems)


def _local_sources(config: WorkerConfig) -> tuple[LogSource, LogSource]:
    """Return a file next to that of the offsets for the changes; the offset history is lost with the process."""
    assert isinstance(config, StandaloneConfig)
    offsets = Path(config.offset_storage_file_filename)
    kept = OffsetFile(offsets.with_name(f"{offsets.name}.history"))
    return (
        LogSource(lambda: True, lambda _: LocalCompactedLog("history", kept)),
        LogSource(lambda: True, lambda _: LocalCompactedLog("history-course")),
    )
