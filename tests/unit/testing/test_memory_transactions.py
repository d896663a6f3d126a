"""The in-memory producer of transactions keeps the contract."""

from __future__ import annotations

import pytest

from spark_connect_rt.kafka.executor_clients import BatchConsumer, TransactionalProducer
from spark_connect_rt.testing.memory_executor_clients import MemoryExecutorClients
from tests.contract.transactions_contract import TransactionsContract


class TestMemoryTransactions(TransactionsContract):
    @pytest.fixture(autouse=True)
    def _clients(self) -> None:
        self.clients = MemoryExecutorClients()

    def new_topic(self, name: str) -> None:
        """Topics are there when they are written."""

    def new_producer(self, transactional_id: str, **properties: str) -> TransactionalProducer:
        return self.clients.transactional_producer({"transactional.id": transactional_id, **properties})

    def new_consumer(self) -> BatchConsumer:
        return self.clients.consumer({})
