"""What tasks on executors get: real Kafka clients, the plug-ins, the config providers (ports/executor_clients.py).

Named in every launch as ``spark_connect_rt.app.executor_clients:executor_clients``; imported in reader, writer and
planner processes, so it must stay quick to import.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the port brings pyarrow, which the driver's start must not wait for
    from spark_connect_rt.ports.executor_clients import BatchConsumer, BatchProducer

FACTORY = "spark_connect_rt.app.executor_clients:executor_clients"


class KafkaExecutorClients:
    """ExecutorClients on confluent-kafka."""

    def producer(self, config: Mapping[str, str]) -> BatchProducer:
        """Return a new producer."""
        from spark_connect_rt.kafka.batch_producer import KafkaBatchProducer

        return KafkaBatchProducer(config)

    def consumer(self, config: Mapping[str, str]) -> BatchConsumer:
        """Return a new consumer."""
        from spark_connect_rt.kafka.batch_consumer import KafkaBatchConsumer

        return KafkaBatchConsumer(config)

    def plugin(self, name: str) -> type[Any]:
        """Return a plug-in's class."""
        from spark_connect_rt.app.plugin_scan import bundled_plugins

        return bundled_plugins().class_of(name)

    def resolve(self, config: Mapping[str, str], worker_config: Mapping[str, str]) -> dict[str, str]:
        """Return the configuration with every ``${provider:...}`` replaced."""
        if not worker_config.get("config.providers"):
            return dict(config)
        from spark_connect_rt.config_providers.providers import ConfigProviders

        return ConfigProviders.from_config(worker_config, self.plugin).resolve(config)


def executor_clients() -> KafkaExecutorClients:
    """Return the clients of this process."""
    return KafkaExecutorClients()
