"""Kafka's Verifiable*, SchemaSource and Mock* in Java Connect and ours in Python: they say and do the same.

Not in the Java host: Java Connect itself takes them from its class path only, never from ``plugin.path``.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka
from spark_connect_rt.base.cache import resolve_jars
from tests.java_proofs.test_apache_connectors import JSON, contents, create
from tests.support.java_beside_ours import LIMIT_S, JavaBesideOurs
from tests.support.java_connect import COORDINATES, JavaConnect
from tests.support.java_plugins import samples_jar

TOOLS = "org.apache.kafka.connect.tools"
COUNT = 500
pytestmark = pytest.mark.timeout(3000)
WHERE: dict[str, tuple[str, dict[str, str]]] = {"java": ("java", {}), "python": ("ours", {})}
PRINTED = re.compile(r"\{[^{}]*\}")


def printed(both: JavaBesideOurs, connector: str) -> list[dict[str, Any]]:
    """Return the lines of JSON that a connector's tasks have printed, without their clock and its name."""

    def lines() -> Iterator[dict[str, Any]]:
        for side in ("java", "ours"):
            for found in PRINTED.findall(both.worker(side).log_file.read_text(errors="replace")):
                if f'"{connector}"' in found:
                    yield json.loads(found)

    return [{key: value for key, value in line.items() if key not in ("name", "time_ms")} for line in lines()]


@pytest.fixture(scope="module")
def both(broker: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaBesideOurs]:
    folder, servers = tmp_path_factory.mktemp("samples"), broker.bootstrap_servers
    (folder / "plugins").mkdir()
    made = JavaBesideOurs(folder, servers, folder / "plugins", "samples")
    jars = [*resolve_jars(COORDINATES), samples_jar(folder / "samples.jar")]
    java = made.java
    made.java = JavaConnect(
        java.directory, servers, java.group_id, properties=java.properties, rest_port=java.rest_port, jars=jars
    )
    with made:
        yield made


@pytest.fixture(scope="module")
def verifiable(both: JavaBesideOurs) -> JavaBesideOurs:
    """Numbers were made by each of the two: so many at least, and then no more."""
    config = {
        "connector.class": f"{TOOLS}.VerifiableSourceConnector",
        "topic": "{where}.verifiable",
        "throughput": "200",
        "key.converter": JSON,
        "value.converter": JSON,
    }
    create(both, "verifiable", config, WHERE)
    deadline = time.monotonic() + LIMIT_S
    for where, (side, _) in WHERE.items():
        while both.reader.count(f"{where}.verifiable") < COUNT:
            assert time.monotonic() < deadline, f"{where} makes no {COUNT} records"
            time.sleep(0.2)
        assert both.worker(side).rest.settled("PUT", f"/connectors/verifiable-{where}/stop").status == 204
        both.worker(side).rest.await_states(f"verifiable-{where}", "STOPPED", [])
    return both


def test_verifiable_sources_send_and_print_the_same(verifiable: JavaBesideOurs) -> None:
    found = contents(verifiable, "{where}.verifiable", COUNT, WHERE)
    assert found["python"] == found["java"]
    steps = {}
    for where in WHERE:
        deadline = time.monotonic() + LIMIT_S
        while True:
            steps[where] = {
                line["seqno"]: line for line in printed(verifiable, f"verifiable-{where}") if line.get("committed")
            }
            if all(number in steps[where] for number in range(COUNT)):
                break
            assert time.monotonic() < deadline, f"{where}: {len(steps[where])} records are said to be committed"
            time.sleep(0.5)
    for number in range(COUNT):
        java, python = ({**steps[where][number], "topic": ""} for where in WHERE)
        assert java == python


def test_verifiable_sinks_print_the_same(verifiable: JavaBesideOurs) -> None:
    contents(verifiable, "{where}.verifiable", COUNT, WHERE)
    sink = {
        "connector.class": f"{TOOLS}.VerifiableSinkConnector",
        "topics": "java.verifiable",
        "key.converter": JSON,
        "value.converter": JSON,
        "consumer.override.auto.offset.reset": "earliest",
    }
    create(verifiable, "verified", sink, WHERE)
    steps: dict[str, list[dict[str, Any]]] = {}
    deadline = time.monotonic() + LIMIT_S
    for where in WHERE:
        while len(steps.setdefault(where, [])) < COUNT:
            assert time.monotonic() < deadline, f"{where}: {len(steps[where])} of {COUNT} records"
            time.sleep(0.5)
            steps[where] = [line for line in printed(verifiable, f"verified-{where}") if "flushed" not in line]
    assert steps["java"][:COUNT] == steps["python"][:COUNT]


def test_sources_of_two_schemas_send_the_same(both: JavaBesideOurs) -> None:
    config = {
        "connector.class": f"{TOOLS}.SchemaSourceConnector",
        "topic": "{where}.schemas",
        "throughput": "-1",
        "num.messages": str(COUNT),
        "multiple.schema": "true",
        "key.converter": JSON,
        "value.converter": JSON,
    }
    create(both, "schemas", config, WHERE)
    found = contents(both, "{where}.schemas", COUNT, WHERE)
    assert found["python"] == found["java"]


@pytest.mark.parametrize("kind", ["Source", "Sink"])
@pytest.mark.parametrize("mode", ["connector-failure", "task-failure", "none"])
def test_mocks_fail_where_configured(kind: str, mode: str, both: JavaBesideOurs) -> None:
    name = f"mock-{kind.lower()}-{mode}"
    config = {"connector.class": f"{TOOLS}.Mock{kind}Connector", "mock_mode": mode, "delay_ms": "0", "topics": "mocked"}
    created = config if kind == "Sink" else {key: config[key] for key in config if key != "topics"}
    create(both, name, created, WHERE)
    wanted = {"connector-failure": "FAILED", "task-failure": ["FAILED"], "none": ["RUNNING"]}[mode]
    deadline = time.monotonic() + LIMIT_S
    for where, (side, _) in WHERE.items():
        # A connector that fails at once may have no tasks yet, in Java as here.
        while wanted not in (found := both.worker(side).rest.states(f"{name}-{where}")):
            assert time.monotonic() < deadline, f"{where}: {found}"
            time.sleep(0.2)
