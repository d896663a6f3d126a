"""Both workers with every plug-in the proofs use, once for all of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka
from tests.support.captured_database import WAL
from tests.support.java_beside_ours import JavaBesideOurs
from tests.support.java_plugins import all_plugins
from tests.support.postgres_server import PostgresServer


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    with PostgresServer(**WAL, max_wal_size="8GB") as server:
        yield server


@pytest.fixture(scope="module")
def both(broker: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaBesideOurs]:
    folder = tmp_path_factory.mktemp("both")
    all_plugins(folder / "plugins")
    with JavaBesideOurs(folder, broker.bootstrap_servers, folder / "plugins", folder.name) as made:
        yield made
