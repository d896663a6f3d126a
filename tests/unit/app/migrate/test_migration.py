"""What becomes of a Java worker's file and of connectors: each verdict, by example."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from spark_connect_rt.app.migrate.plugin_catalog import MigrationCatalog, PluginJars
from spark_connect_rt.app.migrate.rules import Fate, Given, PlannedPlugin, connector_verdict, shown
from spark_connect_rt.app.migrate.stored_state import counted_workers, steps_back, steps_there
from spark_connect_rt.app.migrate.worker_file import WorkerFile, worker_lines
from spark_connect_rt.app.offline.group_members import GroupMember, group_members
from spark_connect_rt.config.worker_settings import DISTRIBUTED, PASSED_ON
from spark_connect_rt.plugins.bundled_plugins import bundled_plugins

JSON = "org.apache.kafka.connect.json.JsonConverter"
DEBEZIUM = "io.debezium.connector.postgresql.PostgresConnector"
UNWRAP = "io.debezium.transforms.ExtractNewRecordState"
FILE_SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
JDBC = "io.confluent.connect.jdbc.JdbcSinkConnector"
OURS = "spark_connect_rt.connectors.http.http_sink.HttpSinkConnector"
PYTHON_SMT = "mine.Mask"
WORKER = {"key.converter": JSON, "value.converter": JSON, "config.providers": "file"}


class FakeCatalog:
    """Debezium in a jar; file source, JDBC sink and Apache's in Python; the file source in a jar, too."""

    PYTHON = {
        name: PlannedPlugin(name, "python", "4.1.1", "bundled", twin=not name.startswith(("spark_connect_rt", "mine")))
        for name in (
            JSON,
            FILE_SOURCE,
            JDBC,
            OURS,
            PYTHON_SMT,
            "org.apache.kafka.connect.storage.SimpleHeaderConverter",
        )
    }
    PYTHON["JdbcSink"] = PYTHON[JDBC]
    JAVA = {name: PlannedPlugin(name, "java", "3.7.0", "/plugins/p") for name in (DEBEZIUM, UNWRAP, FILE_SOURCE, JDBC)}

    def find(self, name: str, version: str | None = None, runtime: str = "auto") -> PlannedPlugin | None:
        first = self.JAVA if runtime == "java" or version == "3.7.0" else self.PYTHON
        return first.get(name) or (self.JAVA.get(name) if runtime != "python" else None)

    def unread(self, name: str, config: Sequence[str]) -> Sequence[str]:
        return [setting for setting in config if setting == "dialect.name"]


def no_problem(client: str, name: str) -> str | None:
    return "no such setting in the clients here" if name == "interceptor.classes" else None


def fates(settings: Mapping[str, str], complaints: Mapping[str, list[str]] | None = None) -> dict[str, Fate]:
    file = WorkerFile(
        settings, DISTRIBUTED, PASSED_ON, FakeCatalog(), no_problem, settings.__getitem__, complaints or {}
    )
    return {line.name: line.fate for line in worker_lines(file)}


@pytest.mark.parametrize(
    ("name", "value", "fate"),
    [
        ("group.id", "g", Fate.SAME),
        ("value.converter", JSON, Fate.SAME),
        ("value.converter", "com.acme.Gone", Fate.CHANGE),
        ("value.converter.schemas.enable", "false", Fate.SAME),
        ("offset.flush.interval.ms", "1000", Fate.DIFFERS),
        ("metrics.recording.level", "DEBUG", Fate.IGNORED),
        ("metric.reporters", "com.acme.Reporter", Fate.IGNORED),
        ("metric.reporters", "org.apache.kafka.common.metrics.JmxReporter", Fate.DIFFERS),
        ("rest.extension.classes", "com.acme.Extension", Fate.CHANGE),
        ("config.providers.vault.class", "com.acme.Vault", Fate.CHANGE),
        ("producer.compression.type", "lz4", Fate.SAME),
        ("consumer.interceptor.classes", "com.acme.Spy", Fate.IGNORED),
        ("config.storage.min.insync.replicas", "2", Fate.SAME),
        ("confluent.license", "x", Fate.IGNORED),
        ("connectrt.slots.max", "4", Fate.SAME),
    ],
)
def test_each_line_of_the_file_has_a_verdict(name: str, value: str, fate: Fate) -> None:
    assert fates({name: value}) == {name: fate}


def test_invalid_and_missing_worker_settings_must_be_changed() -> None:
    refused = {"session.timeout.ms": ["no number"], "group.id": ["missing"]}
    assert fates({"session.timeout.ms": "x"}, refused) == dict.fromkeys(["session.timeout.ms", "group.id"], Fate.CHANGE)


def verdict(config: Mapping[str, str], mixed_group: bool = True):  # type: ignore[no-untyped-def]
    given = Given("c", config, "STARTED", 1, (), WORKER, mixed_group)
    return connector_verdict(given, FakeCatalog(), no_problem)


def test_a_java_connector_with_a_chain_in_java_stays_in_the_jvm() -> None:
    chain = {"transforms": "u", "transforms.u.type": UNWRAP}
    found = verdict({"connector.class": DEBEZIUM, **chain})
    assert (found.runtime, found.kind) == ("java", "java")
    assert {line.fate for line in found.lines} == {Fate.SAME}


def test_a_python_transformation_makes_the_chain_mixed() -> None:
    found = verdict({"connector.class": DEBEZIUM, "transforms": "m", "transforms.m.type": PYTHON_SMT})
    assert (found.runtime, found.kind) == ("java", "mixed")
    assert [element.runtime for element in found.elements] == ["python", "java", "java", "java"]


def test_a_java_transformation_of_a_python_connector_makes_its_chain_mixed() -> None:
    found = verdict({"connector.class": FILE_SOURCE, "transforms": "u", "transforms.u.type": UNWRAP})
    assert (found.runtime, found.kind) == ("python", "mixed")


@pytest.mark.parametrize("more", [{"connectrt.runtime": "java"}, {"connector.plugin.version": "3.7.0"}])
def test_name_that_exists_twice_runs_in_python_unless_configured_otherwise(more: dict[str, str]) -> None:
    assert verdict({"connector.class": FILE_SOURCE}).runtime == "python"
    assert verdict({"connector.class": FILE_SOURCE, **more}).runtime == "java"


def test_another_implementation_of_a_java_class_does_not_share_with_java_workers() -> None:
    config = {"connector.class": JDBC, "dialect.name": "x"}
    lines = {line.name: line.fate for line in verdict(config).lines}
    assert lines == {"connector.class": Fate.CHANGE, "dialect.name": Fate.IGNORED}
    assert verdict(config, mixed_group=False).lines[0].fate is Fate.DIFFERS
    assert verdict(config | {"connectrt.runtime": "java"}).lines[0].fate is Fate.SAME
    assert verdict({"connector.class": "JdbcSink"}).lines[0].fate is Fate.CHANGE


@pytest.mark.parametrize(
    ("setting", "value", "fate"),
    [
        ("connector.class", "com.acme.Gone", Fate.CHANGE),
        ("value.converter", "com.acme.Gone", Fate.CHANGE),
        ("database.password", "${vault:db:password}", Fate.CHANGE),
        ("consumer.override.interceptor.classes", "com.acme.Spy", Fate.IGNORED),
    ],
)
def test_setting_that_would_not_be_honoured_is_reported(setting: str, value: str, fate: Fate) -> None:
    found = verdict({"connector.class": DEBEZIUM, setting: value})
    assert [(line.name, line.fate) for line in found.lines if line.fate is not Fate.SAME] == [(setting, fate)]


def test_no_secret_is_shown() -> None:
    assert shown("database.password", "geheim") == "[hidden]"
    assert shown("sasl.jaas.config", "x password='a';") == "[hidden]"
    assert shown("database.password", "${file:x:y}") == "${file:x:y}"


def test_the_steps_name_file_group_and_wait_and_the_way_back_what_java_cannot_run() -> None:
    settings = {"group.id": "g", "scheduled.rebalance.max.delay.ms": "7000"}
    there = "\n".join(steps_there(settings, "w.properties", [GroupMember("http://a:8083/", "java")], must_change=False))
    assert "connectrt worker w.properties" in there
    assert "group.id=g" in there
    assert "up to 7 s" in there
    assert "Change what" not in there
    given = Given("h", {"connector.class": OURS}, "STARTED", 1, (), WORKER)
    back = steps_back(settings, [connector_verdict(given, FakeCatalog(), no_problem)])
    assert back[0].endswith(": h.")


@pytest.mark.parametrize(
    ("class_name", "name"),
    [
        ("IcebergSink", "iceberg.catalog.warehouse"),
        ("DeltaSink", "delta.storage.aws_endpoint"),
        ("DltSource", "dlt.config.sources.token"),
        ("LakeflowSource", "lakeflow.option.token"),
        ("MirrorSource", "source.cluster.bootstrap.servers"),
        ("ObjectStoreSink", "store.url"),
    ],
)
def test_settings_that_a_connector_reads_by_prefix_are_not_called_ignored(class_name: str, name: str) -> None:
    catalog = MigrationCatalog(bundled_plugins(), PluginJars([]))
    found = catalog.find(class_name)
    assert found is not None
    assert catalog.unread(found.name, [name, "no.such.setting"]) == ["no.such.setting"]


def test_a_connector_that_java_workers_cannot_run_differs_in_a_mixed_group() -> None:
    line = verdict({"connector.class": OURS}).lines[0]
    assert line.fate is Fate.DIFFERS
    assert "stop it before a Java worker joins" in line.why
    assert verdict({"connector.class": OURS}, mixed_group=False).lines[0].fate is Fate.SAME


def test_members_are_counted_by_runtime() -> None:
    urls = ["http://a:1/", "http://b:1/", "http://c:1/", "http://d:1/"]
    statuses = {"http://a:1/health/ready": 404, "http://b:1/health/ready": 503, "http://c:1/health/ready": 401}
    members = group_members("sessioned", urls, statuses.get)
    assert [member.runtime for member in members] == ["java", "python", "", ""]
    assert counted_workers(members) == "1 Java worker and 1 Spark worker and 2 workers of unknown kind"
    ours = group_members("connectrt-sessioned-compact", urls, statuses.get)
    there = "\n".join(steps_there({"group.id": "g"}, "w.properties", ours, must_change=False))
    assert "joins the group of 4 Spark workers and gets" in there


ICEBERG = {
    "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
    "iceberg.tables": "shop.orders",
    "iceberg.catalog.type": "rest",
    "iceberg.catalog.uri": "http://catalog",
    "iceberg.catalog.token": "secret-token",
    "iceberg.control.topic": "control-lake",
}


def test_icebergs_own_sink_without_its_jars_is_compared_with_the_bundled_sink() -> None:
    found = verdict({**ICEBERG, "iceberg.hadoop-conf-dir": "/etc/hadoop"})
    lines = {line.name: line for line in found.lines}
    assert found.runtime == ""
    assert "the bundled IcebergSink does similar work" in lines["connector.class"].why
    assert {name: line.fate for name, line in lines.items() if name.startswith("iceberg.")} == {
        "iceberg.tables": Fate.SAME,
        "iceberg.catalog.type": Fate.SAME,
        "iceberg.catalog.uri": Fate.SAME,
        "iceberg.catalog.token": Fate.SAME,
        "iceberg.control.topic": Fate.IGNORED,
        "iceberg.hadoop-conf-dir": Fate.CHANGE,
    }
    assert lines["iceberg.catalog.token"].value == "[hidden]"
    assert "group connect-c," in lines["offsets"].why
    assert "group connect-c-coord" in lines["offsets"].why


def test_icebergs_own_sink_with_its_jars_stays_in_the_jvm_and_nothing_must_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = ICEBERG["connector.class"]
    monkeypatch.setitem(FakeCatalog.JAVA, name, PlannedPlugin(name, "java", "1.12.0", "/plugins/iceberg"))
    found = verdict({**ICEBERG, "iceberg.hadoop-conf-dir": "/etc/hadoop"})
    assert found.runtime == "java"
    assert {line.fate for line in found.lines} == {Fate.SAME}
    alternative = next(line.why for line in found.lines if line.name == "IcebergSink")
    assert "ignored: iceberg.control.topic" in alternative
    assert "refused: iceberg.hadoop-conf-dir (IcebergSink refuses it: is not used" in alternative
