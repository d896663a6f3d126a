"""``connectrt`` speaks the public REST API only: a real Java worker is served with all that Java has."""

from __future__ import annotations

import pytest

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka
from spark_connect_rt.engine.startup.java_home import Java
from tests.support.command_line import commands_at, lead_through_its_life
from tests.support.java_connect import JavaConnect

pytestmark = pytest.mark.timeout(300)


def test_the_command_line_leads_a_java_workers_connector_through_its_life(
    broker: EmbeddedKafka, java: Java, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("cli")
    with JavaConnect(folder / "java", broker.bootstrap_servers, "cli-java", java=java) as worker:
        (folder / "files").mkdir()
        connectrt = commands_at(worker.rest.url, folder)
        lead_through_its_life(connectrt, folder / "files", java=True)
        for words in (("history",), ("events",), ("logs", "x"), ("dlq", "status"), ("get", "dead-letters", "x*")):
            ended = connectrt(*words)
            assert ended.code in (4, 8), (words, ended)
        ended = connectrt("events")
        assert ended.err.splitlines()[0].endswith(f"this worker does not serve GET /admin/events ({worker.rest.url})")
        assert connectrt("top").code == 0
