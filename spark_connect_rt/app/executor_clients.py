"""What tasks on executors get: real Kafka clients, the plug-ins, the config providers (ports/executor_clients.py).

Named in every launch as ``spark_connect_rt.app.executor_clients:executor_clients``; imported in reader, writer and
planner processes, so it must stay quick to import.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_connect_rt.api.plugin_modules import public_name
from spark_connect_rt.config.worker.oauth_endpoints import endpoints_in, refuse_foreign_endpoints

if TYPE_CHECKING:  # the port brings pyarrow, which the driver's start must not wait for
    from spark_connect_rt.config.connectors.topic_creation import TopicGroup
    from spark_connect_rt.kafka.admin import TopicSpec
    from spark_connect_rt.ports.executor_clients import BatchConsumer, BatchProducer, TransactionalProducer

FACTORY = "spark_connect_rt.app.executor_clients:executor_clients"


class KafkaExecutorClients:
    """ExecutorClients on confluent-kafka, and on aiokafka where whole columns are read or sent."""

    def __init__(self, folders: tuple[str, ...] = (), driver_folders: tuple[str, ...] = ()) -> None:
        """Take the folders of ``plugin.path``, as they are on this machine and, in that order, on the driver's."""
        self._folders = folders
        self._driver_folders = driver_folders or folders

    def producer(self, config: Mapping[str, str]) -> BatchProducer:
        """Return a new producer."""
        from spark_connect_rt.kafka.writing.producers import batch_producer

        return batch_producer(config)

    def transactional_producer(self, config: Mapping[str, str]) -> TransactionalProducer:
        """Return a new producer of transactions."""
        from spark_connect_rt.kafka.writing.transactional_producer import KafkaTransactionalProducer

        return KafkaTransactionalProducer(config)

    def consumer(self, config: Mapping[str, str]) -> BatchConsumer:
        """Return a new consumer."""
        from spark_connect_rt.kafka.reading.consumers import batch_consumer

        return batch_consumer(config)

    def ensure_topic(self, config: Mapping[str, str], topic: str, replication_factor: int) -> bool:
        """Create a topic of one partition when it is missing; return whether it was."""
        from spark_connect_rt.kafka.admin import TopicSpec

        return _created(config, TopicSpec(topic, 1, replication_factor))

    def create_topic(self, config: Mapping[str, str], topic: str, group: TopicGroup) -> bool:
        """Create a topic as its group says, unless it exists."""
        from spark_connect_rt.kafka.admin import TopicSpec

        return _created(config, TopicSpec(topic, group.partitions, group.replication_factor, group.settings))

    def name_of(self, plugin: type[Any]) -> str:
        """Return a plug-in's name as REST shows it."""
        from spark_connect_rt.app.plugin_scan import BUNDLED

        target = f"{plugin.__module__}:{plugin.__qualname__}"
        return next((one.java_class for one in BUNDLED if one.target == target), public_name(plugin))

    def plugin(self, name: str) -> type[Any]:
        """Return a plug-in's class."""
        from spark_connect_rt.app.worker_plugins import plugins_in

        return plugins_in(self._folders).class_of(name)

    def plugin_location(self, path: str) -> str:
        """Return where a part of the driver's ``plugin.path`` is on this machine."""
        for there, here in zip(self._driver_folders, self._folders, strict=True):
            if (parts := _parts_below(path, there)) is not None:
                return str(Path(here, *parts))
        return path

    def resolve(self, config: Mapping[str, str], worker_config: Mapping[str, str]) -> dict[str, str]:
        """Return the configuration with every ``${provider:...}`` replaced."""
        resolve: Callable[[Mapping[str, str]], dict[str, str]] = dict
        if worker_config.get("config.providers"):
            from spark_connect_rt.config_providers.providers import ConfigProviders

            resolve = ConfigProviders.from_config(worker_config, self.plugin).resolve
        resolved = resolve(config)
        if endpoints_in(resolved):
            refuse_foreign_endpoints(resolved, resolve(worker_config))
        return resolved


def _parts_below(path: str, folder: str) -> tuple[str, ...] | None:
    """Return the way from a folder to a path in it, None: it is elsewhere."""
    try:
        return Path(path).absolute().relative_to(Path(folder).absolute()).parts
    except ValueError:
        return None


def _created(config: Mapping[str, str], spec: TopicSpec) -> bool:
    """Create a topic that is missing; return whether it was."""
    from spark_connect_rt.kafka.admin import KafkaAdmin

    admin = KafkaAdmin(config)
    try:
        if admin.partition_count(spec.name) is not None:
            return False
        return admin.create_topic(spec)
    finally:
        admin.close()


def clients_factory(folders: Sequence[str]) -> str:
    """Return the name of the clients of a worker with these folders as its ``plugin.path``."""
    return f"{FACTORY}?{','.join(folders)}" if folders else FACTORY


def executor_clients(plugin_path: str = "") -> KafkaExecutorClients:
    """Return the clients of this process; from now on it can import what is in the worker's ``plugin.path``."""
    if not plugin_path:
        return KafkaExecutorClients()
    from spark_connect_rt.config.worker.own_settings import PluginSettings
    from spark_connect_rt.plugins.isolation import make_importable
    from spark_connect_rt.plugins.locations import find_locations
    from spark_connect_rt.spark.executor.shipped_plugins import folders_here

    driver_folders = PluginSettings.of({"plugin.path": plugin_path}).folders
    folders = folders_here(driver_folders)
    make_importable(find_locations(folders))
    return KafkaExecutorClients(folders, driver_folders)
