"""Puts together what shows and replays the dead letters of a group."""

from __future__ import annotations

from spark_connect_rt.config.client_properties import log_client_properties
from spark_connect_rt.config.worker.worker_settings import WorkerConfig
from spark_connect_rt.kafka.admin import KafkaAdmin
from spark_connect_rt.management.letters.desk import LetterDesk
from spark_connect_rt.management.letters.letter_forms import LetterForms
from spark_connect_rt.management.letters.letter_topics import LetterTopics
from spark_connect_rt.management.letters.queues import Queues
from spark_connect_rt.ports.herder import HerderViews
from spark_connect_rt.runtime.herder.dependencies import HerderDependencies


def letter_desk(config: WorkerConfig, deps: HerderDependencies, views: HerderViews, admin: KafkaAdmin) -> LetterDesk:
    """Return what answers with pages of dead letters."""
    queues = Queues(views, deps.resolve, own_topics(config))
    topics = LetterTopics(admin, log_client_properties(config, "dead-letters").consumer)
    return LetterDesk(queues, topics, LetterForms(queues.config_of, config.raw, deps.plugins.class_of))


def own_topics(config: WorkerConfig) -> set[str]:
    """Return the topics of the workers themselves, whether they are there or not."""
    stored = {one.name for one in config.storage.values()}
    if "config" in config.storage:
        name = config.storage["config"].name
        stored |= {f"{name}-{part}" for part in ("plugins", "history", "history-course", "replays")}
    history = config.management.connectrt_history_storage_topic
    named = (config.plugin_install.connectrt_plugins_storage_topic, history, f"{history}-course" if history else None)
    return stored | {one for one in named if one}
