"""Puts together what shows and replays the dead letters of a group."""

from __future__ import annotations

from spark_connect_rt.config.client_properties import (
    log_client_properties,
    replay_log_properties,
    replay_producer_properties,
    shared_admin_properties,
)
from spark_connect_rt.config.worker_settings import WorkerConfig
from spark_connect_rt.kafka.admin import KafkaAdmin, TopicSpec
from spark_connect_rt.kafka.internal_topics import SHORT_HEAD, topic_source
from spark_connect_rt.kafka.writing.transactional_producer import KafkaTransactionalProducer
from spark_connect_rt.operations.dead_letters.browser import DeadLetterBrowser, Marks, marks_of
from spark_connect_rt.operations.dead_letters.letter import LetterForms
from spark_connect_rt.operations.dead_letters.letter_edit import LetterEdit
from spark_connect_rt.operations.dead_letters.letter_topics import DeadLetterTopics, LetterTopics
from spark_connect_rt.operations.dead_letters.replay import LetterReplays, ReplayClients
from spark_connect_rt.operations.dead_letters.replay_ledger import ReplayLog
from spark_connect_rt.operations.dead_letters.sink_replay import HerderFeed, SinkReplay
from spark_connect_rt.rest.change_history import History
from spark_connect_rt.runtime.herder.dependencies import HerderDependencies
from spark_connect_rt.runtime.herder.herder_api import HerderApi


def dead_letters(
    config: WorkerConfig,
    worker: str,
    deps: HerderDependencies,
    herder: HerderApi,
    admin: KafkaAdmin,
    history: History | None = None,
) -> tuple[DeadLetterBrowser, LetterReplays]:
    """Return what answers with pages of dead letters, and what replays them; nothing is started."""
    queues = DeadLetterTopics(herder.views, deps.resolve, own_topics(config))
    topics = LetterTopics(admin, log_client_properties(config, "dead-letters").consumer)
    plugin = deps.plugins.class_of
    shown = LetterForms(queues.config_of, config.raw, plugin, leaves_nothing=True)
    sent = LetterForms(queues.config_of, config.raw, plugin)
    topic = replays_topic(config)
    source = None if topic is None else topic_source(topic, admin, replay_log_properties(config))
    replay_log = ReplayLog(None if topic is None else topic.name, source)

    def marks(_topic: str, topic_id: str) -> Marks:
        return marks_of(replay_log, topic_id)

    parts = ReplayClients(
        worker=worker,
        queues=queues,
        topics=topics,
        log=replay_log,
        new_producer=lambda queue: KafkaTransactionalProducer(replay_producer_properties(config, queue)),
        new_edit=lambda replay: LetterEdit(replay.edit, sent, queues.config_of, plugin, deps.resolve),
        try_edit=lambda replay: LetterEdit(replay.edit, shown, queues.config_of, plugin, deps.resolve),
        now_ms=deps.clock.now_ms,
        feed=HerderFeed(herder, deps.group_offsets, lambda: shared_admin_properties(config), history),
        sink_run=SinkReplay,
    )
    return DeadLetterBrowser(queues, topics, shown, marks), LetterReplays(parts, (shown, sent), plugin)


def replays_topic(config: WorkerConfig) -> TopicSpec | None:
    """Return the topic of replays; None: a standalone worker without the setting."""
    configs = config.storage.get("config")
    named = config.management.connectrt_replays_storage_topic
    if named is None and configs is None:
        return None
    replication = configs.replication_factor if configs else -1
    return TopicSpec(named or f"{configs.name if configs else ''}-replays", 1, replication, SHORT_HEAD)


def own_topics(config: WorkerConfig) -> set[str]:
    """Return the topics of the workers themselves, whether they are there or not."""
    stored = {storage_topic.name for storage_topic in config.storage.values()}
    if "config" in config.storage:
        name = config.storage["config"].name
        stored |= {f"{name}-{part}" for part in ("plugins", "history", "history-course", "replays")}
    own = config.management
    history = own.connectrt_history_storage_topic
    course = f"{history}-course" if history else None
    plugins = config.plugin_install.connectrt_plugins_storage_topic
    return stored | {topic for topic in (plugins, history, course, own.connectrt_replays_storage_topic) if topic}
