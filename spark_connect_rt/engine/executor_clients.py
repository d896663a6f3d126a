"""Clients of tasks on executors: real Kafka clients, the plug-ins, the config providers (kafka/executor_clients.py).

Named in every launch as ``spark_connect_rt.engine.executor_clients:executor_clients``; imported in reader, writer and
planner processes, so it must stay quick to import.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_connect_rt.api.plugin_modules import public_name
from spark_connect_rt.config.override_policy import endpoints_in, refuse_foreign_endpoints
from spark_connect_rt.config.programs import allowed_programs, names_programs, refuse_programs
from spark_connect_rt.config.stored_config import StoredConfig
from spark_connect_rt.errors import NotFoundError

if TYPE_CHECKING:
    from spark_connect_rt.config.topic_creation import TopicGroup
    from spark_connect_rt.kafka.admin import TopicSpec
    from spark_connect_rt.kafka.executor_clients import BatchConsumer, BatchProducer, TransactionalProducer
    from spark_connect_rt.plugins.config_providers import ConfigProviders

FACTORY = "spark_connect_rt.engine.executor_clients:executor_clients"


class KafkaExecutorClients:
    """ExecutorClients on confluent-kafka, and on aiokafka where whole columns are read or sent."""

    def __init__(self, driver_folders: tuple[str, ...] = (), copies: Path | None = None) -> None:
        """Take the folders of plug-ins on the driver's machine; where their copies are, if this is another one."""
        self._driver_folders = driver_folders
        self._copies = copies
        self._providers: tuple[dict[str, str], ConfigProviders] | None = None

    @property
    def _folders(self) -> tuple[str, ...]:
        """The folders as they are on this machine: a copy may come while this process runs."""
        from spark_connect_rt.engine.executor.shipped_plugins import folders_here

        return folders_here(self._driver_folders, self._copies)

    def producer(self, config: Mapping[str, str]) -> BatchProducer:
        """Return a new producer with these properties."""
        from spark_connect_rt.kafka.writing.producers import batch_producer

        return batch_producer(config)

    def transactional_producer(self, config: Mapping[str, str]) -> TransactionalProducer:
        """Return a new producer of transactions."""
        from spark_connect_rt.kafka.writing.producers import transactional_producer

        return transactional_producer(config)

    def consumer(self, config: Mapping[str, str]) -> BatchConsumer:
        """Return a new consumer with these properties."""
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
        from spark_connect_rt.plugins.bundled_plugins import BUNDLED

        target = f"{plugin.__module__}:{plugin.__qualname__}"
        return next((desc.java_class for desc in BUNDLED if desc.target == target), public_name(plugin))

    def plugin(self, name: str) -> type[Any]:
        """Return a plug-in's class by name or alias. Raises NotFoundError if another search also misses it."""
        from spark_connect_rt.engine.process_plugins import plugins_in

        try:
            return plugins_in(self._folders).class_of(name)
        except NotFoundError:
            if not self.look_again():
                raise
            return plugins_in(self._folders).class_of(name)

    def look_again(self) -> bool:
        """Take in what was installed since this process began; return whether the driver sent something."""
        from spark_connect_rt.plugins.isolation import make_importable
        from spark_connect_rt.plugins.locations import find_locations

        fetched = False
        if self._copies is not None:
            from spark_connect_rt.engine.executor.late_plugins import fetch_late_plugins

            fetched = fetch_late_plugins(self._copies)
        make_importable(find_locations([folder for folder in self._folders if Path(folder).exists()]))
        return fetched

    def plugin_location(self, path: str) -> str:
        """Return where a part of the driver's ``plugin.path`` is on this machine."""
        for number, there in enumerate(self._driver_folders):
            if (parts := _parts_below(path, there)) is not None:
                if not Path(self._folders[number], *parts).exists():
                    self.look_again()  # perhaps it was installed after this process began
                return str(Path(self._folders[number], *parts))
        return path

    def resolve(self, config: StoredConfig | Mapping[str, str], worker_config: Mapping[str, str]) -> dict[str, str]:
        """Return the configuration with every ``${provider:...}`` replaced."""
        resolve: Callable[[Mapping[str, str]], dict[str, str]] = dict
        if worker_config.get("config.providers"):
            resolve = self._config_providers(worker_config).resolve
        resolved = StoredConfig.of(config).resolved(resolve)
        if endpoints_in(resolved):
            refuse_foreign_endpoints(resolved, resolve(worker_config))
        if names_programs(resolved):
            refuse_programs(resolved, allowed_programs(resolve(worker_config)))
        return resolved

    def _config_providers(self, worker_config: Mapping[str, str]) -> ConfigProviders:
        """Return the worker's providers: made once, as in Java, for one of Java's is an object in a JVM."""
        from spark_connect_rt.plugins.config_providers import ConfigProviders

        settings = {name: value for name, value in worker_config.items() if name.startswith("config.providers")}
        kept = self._providers
        if kept is None or kept[0] != settings:
            self._providers = kept = (settings, ConfigProviders.from_config(worker_config, self.plugin))
        return kept[1]


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
    from spark_connect_rt.config.connectrt_config import PluginSettings
    from spark_connect_rt.engine.executor.shipped_plugins import copies_here
    from spark_connect_rt.plugins.isolation import look_when_missing

    clients = KafkaExecutorClients(PluginSettings.of({"plugin.path": plugin_path}).folders, copies_here())
    clients.look_again()
    look_when_missing(clients.look_again)
    return clients
