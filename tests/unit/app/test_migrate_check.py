"""``connectrt migrate check`` over a file, a folder of jars and topics in memory."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from spark_connect_rt.app.cli import cli
from spark_connect_rt.app.migrate import check as migrate_check
from spark_connect_rt.app.offline.group_members import GroupMember
from spark_connect_rt.base.exit_codes import EXIT_BAD_PROPERTIES, EXIT_MUST_CHANGE
from spark_connect_rt.errors import RetriableError
from spark_connect_rt.topics.store_check import StoreFinding, TopicShape, topic_findings
from tests.support.worker_process import worker_properties
from tests.unit.app.offline.test_store_actions import MemoryTopics

DEBEZIUM = "io.debezium.connector.postgresql.PostgresConnector"
FILE_SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"


class Topics(MemoryTopics):
    """Stands for InternalTopics of a group with a Java worker and a Spark worker."""

    def __init__(self) -> None:
        super().__init__()
        self.shapes: list[TopicShape] = []

    def shape_findings(self) -> list[StoreFinding]:
        return [finding for shape in self.shapes for finding in topic_findings(shape)]

    def members(self) -> list[GroupMember]:
        return [GroupMember("http://java:8083/", "java"), GroupMember("http://spark:8083/", "python")]


@pytest.fixture
def topics(monkeypatch: pytest.MonkeyPatch) -> Topics:
    made = Topics()
    monkeypatch.setattr(migrate_check, "InternalTopics", lambda settings: made)
    return made


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A worker's file whose plugin.path has Debezium's class in a jar without service files."""
    plugin = tmp_path / "plugins" / "debezium"
    plugin.mkdir(parents=True)
    with zipfile.ZipFile(plugin / "debezium.jar", "w") as jar:
        jar.writestr(f"{DEBEZIUM.replace('.', '/')}.class", b"")
    (plugin / "broken.jar").write_bytes(b"no zip")
    file = tmp_path / "worker.properties"
    settings = worker_properties("127.0.0.1:1", "g", 8083) | {
        "plugin.path": str(plugin.parent),
        "metric.reporters": "com.acme.Reporter",
    }
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return file


def add(topics: Topics, name: str, config: dict[str, str], **status: Any) -> None:
    topics.write("configs", (f"connector-{name}", {"properties": {"name": name, **config}}))
    topics.write("configs", (f"task-{name}-0", {"properties": config}), (f"commit-{name}", {"tasks": 1}))
    if status:
        whole = {"trace": None, "worker_id": "w:1", "generation": 1} | status
        topics.write("statuses", (f"status-task-{name}-0", whole))


def checked(file: Path, *more: str) -> tuple[int, Any]:
    found = CliRunner().invoke(cli, ["migrate", "check", str(file), "-o", "json", *more])
    return found.exit_code, json.loads(found.stdout)


def test_a_group_that_can_move_gets_its_steps_and_exit_code_0(file: Path, topics: Topics) -> None:
    add(topics, "db", {"connector.class": DEBEZIUM}, state="FAILED")
    add(topics, "lines", {"connector.class": FILE_SOURCE, "file": "a", "topic": "t"})
    topics.write("offsets", ('["lines",{"filename":"a"}]', {"position": 3}))
    code, report = checked(file)
    assert code == 0, report
    assert {connector["name"]: (connector["runtime"], connector["kind"]) for connector in report["connectors"]} == {
        "db": ("java", "java"),
        "lines": ("python", "python"),
    }
    assert {"name": "task 0", "value": "FAILED"}.items() <= report["connectors"][0]["lines"][-1].items()
    assert report["counts"]["change"] == 0
    assert report["counts"]["ignored"] == 2
    (broken,) = (entry for entry in report["worker"] if entry["name"] == "plugin.path" and entry["fate"] == "ignored")
    assert "broken.jar is not a valid jar" in broken["why"]
    assert "of 1 Java worker and 1 Spark worker " in " ".join(report["there"])
    shown = CliRunner().invoke(cli, ["migrate", "check", str(file)])
    assert "ignored metric.reporters=com.acme.Reporter" in shown.stdout
    assert "db: io.debezium.connector.postgresql.PostgresConnector runs in the Java host" in shown.stdout
    assert "sources resume at their offsets (lines: 1)" in shown.stdout


def test_an_element_of_plugin_path_may_be_a_single_jar(file: Path, topics: Topics) -> None:
    add(topics, "db", {"connector.class": "PostgresConnector"})
    jar = file.parent / "plugins" / "debezium" / "debezium.jar"
    code, report = checked(file, "--set", f"plugin.path={jar}")
    assert code == 0, report
    assert report["connectors"][0]["runtime"] == "java"


def test_missing_plugins_exit_with_code_26(file: Path, topics: Topics) -> None:
    add(topics, "gone", {"connector.class": "com.acme.Gone"})
    code, report = checked(file, "--set", "plugin.path=/no/such/folder")
    assert code == EXIT_MUST_CHANGE
    changes = [
        line["name"] for line in [*report["worker"], *report["connectors"][0]["lines"]] if line["fate"] == "change"
    ]
    assert changes == ["plugin.path", "connector.class"]


def test_damaged_topics_are_exit_code_26_and_oddities_are_reported(file: Path, topics: Topics) -> None:
    add(topics, "lines", {"connector.class": FILE_SOURCE, "file": "a", "topic": "t"})
    topics.append("offsets", [(b"no key of an offset", b"{}")], 0)
    topics.shapes = [
        TopicShape("configs", "g-configs", (1,), (1,), "delete", 1, 1),
        TopicShape("statuses", "g-statuses", (1,), (1,), "compact", 3, 3),
    ]
    code, report = checked(file)
    assert code == EXIT_MUST_CHANGE
    told = {line["name"]: line["fate"] for line in report["topics"]}
    assert told["g-configs: wrong-cleanup-policy"] == "change"
    assert told["g-statuses: few-replicas"] == "differs"
    assert told["g-offsets: unreadable-offset"] == "change"
    assert report["counts"]["change"] == 2
    assert report["connectors"][0]["runtime"] == "python", "the others are judged all the same"


def test_every_key_of_the_file_has_one_line(file: Path, topics: Topics) -> None:
    more = {
        "no.such.setting": "1",
        "producer.acks": "all",
        "connectrt.java.heap": "64m",
        "plugin.discovery": "only_scan",
    }
    with file.open("a") as opened:
        opened.writelines(f"{name}={value}\n" for name, value in more.items())
    _, report = checked(file)
    names = [line.partition("=")[0] for line in file.read_text().splitlines()]
    told = [line["name"] for line in report["worker"]]
    assert told[: len(names)] == names, "in the order of the file; what is broken on plugin.path comes behind"
    shown = CliRunner().invoke(cli, ["migrate", "check", str(file)]).stdout
    assert [name for name in names if f"{name}=" not in shown] == []


def test_a_cluster_that_does_not_answer_is_a_line_of_the_report(
    file: Path, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable() -> list[GroupMember]:
        raise RetriableError("nobody answers")

    monkeypatch.setattr(topics, "members", unreachable)
    code, report = checked(file)
    assert code == EXIT_MUST_CHANGE
    assert report["topics"][0]["why"] == "not read: nobody answers"


def test_a_refused_file_is_judged_line_by_line_without_its_topics(file: Path, topics: Topics) -> None:
    code, report = checked(file, "--set", "session.timeout.ms=soon")
    assert code == EXIT_MUST_CHANGE
    fates = {line["name"]: line["fate"] for line in report["worker"]}
    assert fates["session.timeout.ms"] == "change"
    assert fates["group.id"] == "same"
    assert report["topics"][0]["why"] == "not read, because the file is invalid"


@pytest.mark.parametrize(
    ("setting", "value", "why"),
    [
        ("connectrt.java.heap", "1k", "too small for a Java host"),
        ("plugin.discovery", "never", "Invalid value never"),
    ],
)
def test_plugin_setting_that_the_worker_refuses_is_a_finding(
    file: Path, topics: Topics, setting: str, value: str, why: str
) -> None:
    with file.open("a") as more:
        more.write(f"{setting}={value}\n")
    code, report = checked(file)
    assert code == EXIT_MUST_CHANGE
    line = next(entry for entry in report["worker"] if entry["name"] == setting)
    assert (line["fate"], why in line["why"]) == ("change", True), line


def test_values_that_a_client_refuses_are_lines_to_change(file: Path, topics: Topics) -> None:
    more = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "AWS_MSK_IAM",
        "producer.security.protocol": "SASL_PLAINTEXT",
        "producer.sasl.mechanism": "PLAIN",
        "producer.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required username=a b;",
        "consumer.max.request.size": "5",
        "consumer.fetch.max.bytes": "many",
        "connectrt.engin": "spark",
    }
    code, report = checked(file, *(f"--set={name}={value}" for name, value in more.items()))
    lines = {line["name"]: line for line in report["worker"]}
    refused = ("sasl.mechanism", "producer.sasl.jaas.config", "consumer.fetch.max.bytes")
    assert {name: lines[name]["fate"] for name in refused} == dict.fromkeys(refused, "change")
    assert lines["consumer.max.request.size"]["fate"] == "ignored"
    assert lines["connectrt.engin"]["fate"] == "ignored"
    assert lines["consumer.security.protocol"]["fate"] == "differs"
    assert code == EXIT_MUST_CHANGE


def test_a_provider_that_is_not_found_is_not_called_a_connector(file: Path, topics: Topics) -> None:
    given = ("--set=config.providers=vault", "--set=config.providers.vault.class=com.acme.VaultProvider")
    _, report = checked(file, *given)
    (line,) = [entry for entry in report["worker"] if entry["name"] == "config.providers.vault.class"]
    assert line["fate"] == "change"
    assert "com.acme.VaultProvider could not be found" in line["why"]
    assert "implements Connector" not in line["why"]


@pytest.mark.parametrize(
    ("content", "command"),
    [
        ("clusters=a,b\na->b.enabled=true\n", "mirror run"),
        ("name=c\nconnector.class=FileStreamSink\n", "connectrt check"),
        ("bootstrap.servers=a:1\noffset.storage.file.filename=/x\n", "standalone"),
    ],
)
def test_a_file_of_another_kind_is_refused_with_the_command_that_reads_it(
    tmp_path: Path, content: str, command: str
) -> None:
    file = tmp_path / "other.properties"
    file.write_text(content)
    found = CliRunner().invoke(cli, ["migrate", "check", str(file)])
    assert found.exit_code == EXIT_BAD_PROPERTIES
    assert command in found.output
