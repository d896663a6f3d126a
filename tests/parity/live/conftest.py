"""Both workers, each with a broker of its own so that neither sees the other's topics and groups."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka
from spark_connect_rt.engine.startup.java_home import Java
from tests.parity.conversation import Heard, listen
from tests.parity.scripts import LONG
from tests.parity.worker_settings import SETTINGS
from tests.support.java_connect import JavaConnect
from tests.support.worker_process import SparkWorkerProcess


@pytest.fixture(scope="module")
def from_java(broker: EmbeddedKafka, java: Java, tmp_path_factory: pytest.TempPathFactory) -> Heard:
    """What Java answers to the conversation."""
    folder: Path = tmp_path_factory.mktemp("java")
    worker = JavaConnect(folder, broker.bootstrap_servers, "parity", properties=SETTINGS, java=java)
    with worker:
        return listen(worker.rest, worker.directory, LONG)


@pytest.fixture(scope="module")
def from_ours(java: Java, tmp_path_factory: pytest.TempPathFactory) -> Heard:
    """What ours answers to the same."""
    folder: Path = tmp_path_factory.mktemp("ours")
    with EmbeddedKafka(folder / "kafka", java=java, die_with_parent=True) as broker:
        worker = SparkWorkerProcess(folder / "worker", broker.bootstrap_servers, "parity", properties=SETTINGS)
        with worker:
            return listen(worker.rest, worker.directory, LONG)
