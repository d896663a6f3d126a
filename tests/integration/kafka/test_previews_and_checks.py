"""Previews and checks of a worker on a real broker, its tasks on threads; a preview leaves nothing in the cluster.

The worker asks for a login, and on its https listener for a certificate: the command line leads a connector there.
"""

from __future__ import annotations

import json
import uuid
from base64 import b64decode
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka, free_ports
from spark_connect_rt.base.exit_codes import EXIT_PROBLEM, EXIT_UNREACHABLE
from spark_connect_rt.cli.session import CommandContext
from spark_connect_rt.errors import BadConfigError, RetriableError
from spark_connect_rt.kafka.permission_checks import NewTopicPlan, PermissionChecks
from tests.e2e.commands import until
from tests.integration.kafka.secure_kafka import SCRAM, SecureKafka
from tests.integration.kafka.threads_worker import ThreadsWorkerProcess
from tests.support.certificates import Certificates
from tests.support.command_line import NAME as LED
from tests.support.command_line import Ended, lead_through_its_life, run_command
from tests.support.connect_rest import ConnectRest
from tests.support.logins import login_settings
from tests.support.schema_registry import SchemaRegistry
from tests.topics import count_records

NAME, PASSWORD = "ann", "s3cret-of-ann"
GROUP = f"previews-{uuid.uuid4().hex[:8]}"
AVRO = {"value.converter": "io.confluent.connect.avro.AvroConverter"}


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def worker(
    tmp_path_factory: pytest.TempPathFactory, broker: EmbeddedKafka, certificates: Certificates
) -> Iterator[ThreadsWorkerProcess]:
    folder, (port, tls_port) = tmp_path_factory.mktemp("worker"), free_ports(2)
    settings = {
        "listeners": f"http://127.0.0.1:{port},https://127.0.0.1:{tls_port}",
        "rest.advertised.listener": "http",
        **certificates.settings(auth="required"),
        **login_settings(folder, {NAME: PASSWORD}),
    }
    process = ThreadsWorkerProcess(folder, broker.bootstrap_servers, GROUP, properties=settings, rest_port=port)
    process.rest = ConnectRest(f"http://{NAME}:{PASSWORD}@127.0.0.1:{port}")
    with process:
        yield process


def world(worker: ThreadsWorkerProcess, servers: str) -> Mapping[str, Any]:
    """Return what a preview might leave behind: topics, groups, records of the internal topics."""
    admin = AdminClient({"bootstrap.servers": servers})
    topics = sorted(topic for topic in admin.list_topics(timeout=10).topics if topic != "__consumer_offsets")
    groups = admin.list_consumer_groups(request_timeout=10).result().valid
    own = [name for name in topics if name.startswith(GROUP)]
    assert len(own) == 3
    return {
        "topics": topics,
        "groups": sorted(group.group_id for group in groups),
        "records": {name: count_records(servers, name) for name in own},
        "connectors": worker.rest.request("GET", "/connectors").json(),
    }


def asked(worker: ThreadsWorkerProcess, path: str, **body: Any) -> Any:
    answer = worker.rest.request("POST", f"/admin/{path}", body)
    assert answer.status == 200, answer.body
    return answer.json()


def test_previews_leave_no_offset_topic_group_schema_or_dead_letter(
    worker: ThreadsWorkerProcess, broker: EmbeddedKafka, tmp_path: Path
) -> None:
    topic = f"read-{uuid.uuid4().hex[:8]}"
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for value in (b'{"id":1}', b"no json", b'{"id":2}'):
        producer.produce(topic, value, headers=[("h", b"1")])
    assert producer.flush(30) == 0
    (tmp_path / "in").write_text("one\ntwo\n")
    letters = {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": f"dead-{topic}"}
    made = {"topic.creation.default.partitions": "1", "topic.creation.default.replication.factor": "1"}
    with SchemaRegistry() as registry:
        before = world(worker, broker.bootstrap_servers)
        file = {"connector.class": "FileStreamSource", "file": str(tmp_path / "in"), "topic": f"never-{topic}"}
        avro = {**AVRO, "value.converter.schema.registry.url": registry.url}
        source = asked(worker, "preview", config={**file, **letters, **made, **avro}, name="never", records=2)
        assert (source["ended"], source["error"]) == ("records", None), source
        data = [b64decode(record["stages"][-1]["bytes"]["value"]) for record in source["records"]]
        assert data == [b"\0\x7f\xff\xff\xff\x06one", b"\0\x7f\xff\xff\xff\x06two"]
        assert {method for method, path in registry.asked if not path.startswith("/subjects/")} <= {"GET"}
        assert registry.shelf.subjects == {}

        json_values = {"value.converter": "org.apache.kafka.connect.json.JsonConverter"}
        plain = {**json_values, "value.converter.schemas.enable": "false"}
        config = {"connector.class": "FileStreamSink", "file": str(tmp_path / "out"), "topics": topic}
        sink = asked(worker, "preview", config={**config, **plain, **letters}, name="never-sink", records=100)
        assert (sink["ended"], sink["error"]) == ("nothing more", None), sink
        stages = [record["stages"][-1] for record in sink["records"]]
        assert [stage["record"] and stage["record"]["value"] for stage in stages] == [{"id": 1}, None, {"id": 2}]
        assert "not JSON" in stages[1]["error"] or "JSON" in stages[1]["error"]
        assert stages[0]["record"]["headers"] == [{"name": "h", "value": 1}]
        given = [{"partition": {"kafka_topic": topic, "kafka_partition": 0}, "offset": {"kafka_offset": 2}}]
        late = asked(worker, "preview", config={**config, **plain}, **{"from": "given", "offsets": given})
        assert [record["stages"][0]["record"]["offset"] for record in late["records"]] == [2]
        assert world(worker, broker.bootstrap_servers) == before
        assert not (tmp_path / "out").exists()


def test_command_line_manages_a_connector_by_a_context_with_login_and_certificates(
    worker: ThreadsWorkerProcess, certificates: Certificates, tmp_path: Path
) -> None:
    around = CommandContext({"CONNECTRT_CONFIG": str(tmp_path / "config.json")}, interactive=False)

    def connectrt(*words: str) -> Ended:
        ended = run_command(words, around)
        assert PASSWORD not in ended.out + ended.err
        return ended

    def context(*words: str) -> None:
        assert connectrt("config", "set-context", "prod", *words).code == 0

    (url,) = [part for part in worker.properties["listeners"].split(",") if part.startswith("https")]
    (tmp_path / "password").write_text("wrong\n")
    context("--url", url, "--username", NAME, "--password-file", str(tmp_path / "password"))
    assert connectrt("get", "connectors").code == EXIT_UNREACHABLE  # an authority that nobody knows
    context("--ca", str(certificates.authority))
    assert connectrt("get", "connectors").code == EXIT_UNREACHABLE  # no certificate of the client's
    context("--cert", str(certificates.stranger))
    assert connectrt("get", "connectors").code == EXIT_UNREACHABLE
    context("--cert", str(certificates.worker))
    refused = connectrt("get", "connectors")
    assert (refused.code, "--username" in refused.err) == (EXIT_PROBLEM, True), refused
    (tmp_path / "password").write_text(f"{PASSWORD}\n")  # read whenever it is used
    assert f"user {NAME}" in connectrt("config", "get-contexts").out
    lead_through_its_life(connectrt, tmp_path, java=False)
    history = json.loads(connectrt("history", LED, "-o", "json").out)
    assert {change["who"].partition("@")[0] for change in history} == {NAME}


def test_a_preview_starts_where_the_connector_is(
    worker: ThreadsWorkerProcess, broker: EmbeddedKafka, tmp_path: Path
) -> None:
    (tmp_path / "in").write_text("one\ntwo\n")
    config = {"connector.class": "FileStreamSource", "file": str(tmp_path / "in"), "topic": f"lines-{uuid.uuid4()}"}
    rest = worker.rest
    rest.create("lines", config)

    def offset() -> Any:
        return [entry["offset"] for entry in rest.request("GET", "/connectors/lines/offsets").json()["offsets"]]

    until(lambda: offset() == [{"position": 8}], 30, "the offset is stored", offset)
    rest.request("PUT", "/connectors/lines/pause")  # else it may read the line before the preview does
    rest.await_states("lines", "PAUSED", ["PAUSED"])
    with (tmp_path / "in").open("a") as file:
        file.write("three\n")
    stored = asked(worker, "preview", name="lines", records=1, seconds=10)
    assert [record["stages"][0]["record"]["value"] for record in stored["records"]] == ["three"]
    begun = asked(worker, "preview", name="lines", records=1, **{"from": "start"})
    assert [record["stages"][0]["record"]["value"] for record in begun["records"]] == ["one"]
    found = asked(worker, "check", name="lines")
    assert found["ok"], found
    (line,) = [check for check in found["lines"] if check["check"] == "offsets"]
    assert "resumes from its stored offsets" in line["what"]
    rest.delete("lines")
    (line,) = [
        check for check in asked(worker, "check", config=config, name="lines")["lines"] if check["check"] == "offsets"
    ]
    assert line["level"] == "warning"
    assert "this name has old offsets, so it would resume at" in line["what"]


def test_a_check_says_what_is_wrong_outside(worker: ThreadsWorkerProcess, tmp_path: Path) -> None:
    database = f"sqlite:///{tmp_path / 'orders.db'}"
    config = {
        "connector.class": "SqlSink",
        "connection.url": database,
        "topics": f"absent-{uuid.uuid4().hex[:8]}",
        "errors.deadletterqueue.topic.name": "dead-check",
        "consumer.override.bootstrap.servers": "127.0.0.1:1",
        "value.converter": "io.confluent.connect.avro.AvroConverter",
        "value.converter.schema.registry.url": "http://127.0.0.1:1",
        "value.converter.max.retries": "0",
    }
    found = asked(worker, "check", config=config, name="orders")
    lines = {(line["check"], line["setting"]): line for line in found["lines"]}
    assert not found["ok"]
    assert lines["validation", ""]["ok"]
    assert lines["name", "name"]["ok"]
    assert lines["host", "consumer.override.bootstrap.servers"]["level"] == "problem"
    assert lines["schema registry", "value.converter.schema.registry.url"]["level"] == "problem"
    assert lines["converter", "key.converter"]["ok"]
    assert "3" in lines["dead letters", "errors.deadletterqueue.topic.name"]["change"]
    assert lines["credentials", "connection.url"]["ok"]
    assert lines["table", "auto.create"]["level"] == "problem"


def test_cluster_checks_describe_topics_and_change_nothing(broker: EmbeddedKafka) -> None:
    look, properties = PermissionChecks(), {"bootstrap.servers": broker.bootstrap_servers}
    topic, absent = f"there-{uuid.uuid4().hex[:8]}", f"absent-{uuid.uuid4().hex[:8]}"
    producer = Producer(properties)
    producer.produce(topic, b"x")
    assert producer.flush(30) == 0
    assert look.reach(properties, 10) == 1
    rights = look.rights(properties, [topic, absent], 10)
    right = rights[topic]
    assert right is not None
    assert (right.partitions >= 1, right.may_read, right.may_write) == (True, True, True)
    assert rights[absent] is None
    assert look.obstacle(properties, NewTopicPlan(absent, 1, 1), 10) == ""
    assert "replication factor" in look.obstacle(properties, NewTopicPlan(absent, 1, 3), 10).lower()
    assert look.obstacle(properties, NewTopicPlan(absent, 1, 1, {"no.such": "x"}), 10) != ""
    topics = look.topics(properties, 10)
    assert topic in topics
    assert absent not in topics
    with pytest.raises(RetriableError):
        look.reach({"bootstrap.servers": "127.0.0.1:1"}, 1)
    assert json.dumps(dict(topics))


def test_wrong_credentials_are_a_setting(secure: SecureKafka) -> None:
    jaas = f'{SCRAM} required username="worker" password="wrong";'
    sasl = {"sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": jaas}
    properties = secure.settings("SCRAM", **{"security.protocol": "SASL_SSL", **sasl})
    with pytest.raises(BadConfigError) as refused:
        PermissionChecks().reach(properties, 8)
    assert "sasl.jaas.config" in refused.value.problems
