"""The in-memory executor clients keep the batch clients' contract."""

from __future__ import annotations

from spark_connect_rt.kafka.executor_clients import BatchConsumer, BatchProducer
from spark_connect_rt.testing.memory_executor_clients import MemoryExecutorClients, MemoryTopics
from tests.contract.batch_clients_contract import BatchClientsContract


class TestMemoryBatchClients(BatchClientsContract):
    def setup_method(self) -> None:
        self.clients = MemoryExecutorClients(MemoryTopics())

    def new_topic(self, name: str, partitions: int) -> None:
        """Topics come to be by writing."""

    def new_producer(self, **properties: str) -> BatchProducer:
        return self.clients.producer(properties)

    def new_consumer(self) -> BatchConsumer:
        return self.clients.consumer({})
