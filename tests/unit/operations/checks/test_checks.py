"""Checks of configurations: what each line says, in which order, within which time, and that no secret is in one."""

from __future__ import annotations

import pickle
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence

import pytest

from spark_connect_rt.api.connector import Connector
from spark_connect_rt.api.outside_checks import Finding, Level, OutsideCheck
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.engine.executor.reach import Obstacles, ReachPart
from spark_connect_rt.errors import BadConfigError, ConnectError, NotFoundError, RetriableError, TimedOutError
from spark_connect_rt.kafka.permission_checks import NewTopicPlan, TopicRights
from spark_connect_rt.operations.checks.addresses import ConfiguredAddress, addresses_in, reached
from spark_connect_rt.operations.checks.check_runner import ParallelChecks, PlannedCheck
from spark_connect_rt.operations.checks.model import CheckLine, CheckRequest
from spark_connect_rt.operations.checks.offset_checks import offset_line
from spark_connect_rt.operations.checks.service import EXECUTOR_LIMIT_S, ConnectorChecks
from spark_connect_rt.records.transforms.timestamp_converter import TimestampConverterValue
from spark_connect_rt.testing.in_process_cluster import InProcessCluster, InProcessWorker
from spark_connect_rt.testing.memory_connectors import MemorySource
from tests.unit.runtime.cluster_stories import Said, create, emitted, expected, source

STRINGS = {"key.converter": "StringConverter", "value.converter": "StringConverter"}


class Probing(MemorySource):
    """Has a check of its own, which quotes a secret, and one that raises."""

    def outside_checks(self, config: Mapping[str, str]) -> Sequence[OutsideCheck]:
        def raises() -> Sequence[Finding]:
            raise ValueError("odd")

        own = Finding("moon", "phase", Level.WARNING, f"it wanes: {config['producer.override.sasl.jaas.config']}")
        return (lambda: [own], raises)


class Clusters:
    """Port Clusters: what a test wants of one cluster."""

    def __init__(self) -> None:
        self.there: dict[str, TopicRights] = {"t": TopicRights(2, True, True)}
        self.refusal: ConnectError | None = None
        self.why_not = ""
        self.asked: list[Mapping[str, str]] = []
        self.plans: list[NewTopicPlan] = []

    def reach(self, properties: Mapping[str, str], limit_s: float) -> int:
        self.asked.append(properties)
        if self.refusal is not None:
            raise self.refusal
        return 3

    def topics(self, properties: Mapping[str, str], limit_s: float) -> Mapping[str, int]:
        return {name: rights.partitions for name, rights in self.there.items()}

    def rights(
        self, properties: Mapping[str, str], topics: Sequence[str], limit_s: float
    ) -> Mapping[str, TopicRights | None]:
        return {topic: self.there.get(topic) for topic in topics}

    def obstacle(self, properties: Mapping[str, str], plan: NewTopicPlan, limit_s: float) -> str:
        self.plans.append(plan)
        return self.why_not


class Checking:
    """A worker whose connector ``src`` has moved its records."""

    def __init__(self, cluster: InProcessCluster, worker: InProcessWorker) -> None:
        self.cluster, self.worker, self.clusters = cluster, worker, Clusters()
        self.checks = ConnectorChecks(worker.herder._deps, worker.herder, self.clusters, limit_s=5)

    def lines(self, config: Mapping[str, str] | None = None, name: str | None = None) -> list[CheckLine]:
        return list(self.checks.check(CheckRequest(name, config)).lines)

    def line(self, check: str, config: Mapping[str, str] | None = None, name: str | None = None) -> CheckLine:
        found = [line for line in self.lines(config, name) if line.check == check]
        assert len(found) == 1, found
        return found[0]


@pytest.fixture(scope="module")
def group() -> Iterator[tuple[InProcessCluster, InProcessWorker]]:
    providers = {"config.providers": "said", "config.providers.said.class": "Said"}
    with InProcessCluster(
        {"Probing": Probing, "Said": Said, "At": TimestampConverterValue}, worker_config=STRINGS | providers
    ) as cluster:
        worker = cluster.add_worker("w1")
        cluster.until_stable()
        create(cluster, "src", source(10))
        cluster.until(lambda: emitted(cluster) == expected("src-0", 10))
        cluster.until(lambda: len(worker.herder._deps.offset_store.connector_offsets("src")) == 1)
        yield cluster, worker


@pytest.fixture
def checking(group: tuple[InProcessCluster, InProcessWorker]) -> Checking:
    return Checking(*group)


def test_a_source_that_could_run_is_ok_line_by_line_in_order(checking: Checking) -> None:
    report = checking.checks.check(CheckRequest("new", source(10)))
    assert report.ok
    assert [(line.check, line.setting, line.level) for line in report.lines] == [
        ("validation", "", "ok"),
        ("name", "name", "ok"),
        ("converter", "key.converter", "ok"),
        ("converter", "value.converter", "ok"),
        ("converter", "header.converter", "ok"),
        ("host", "bootstrap.servers", "ok"),
        ("topic", "topic", "ok"),
        ("offsets", "name", "ok"),
    ]
    assert "starts at the beginning" in report.lines[-1].what


def test_a_date_pattern_that_is_surely_not_meant_is_a_warning(
    checking: Checking, caplog: pytest.LogCaptureFixture
) -> None:
    config = source(10) | {
        "transforms": "at",
        "transforms.at.type": "At",
        "transforms.at.target.type": "string",
        "transforms.at.format": "yyyy-MM-dd HH:mm:ss.SSSSSS",
    }
    found = [line for line in checking.lines(config, "new") if line.check == "validation"]
    assert [(line.setting, line.level, line.ok) for line in found] == [
        ("", "ok", True),
        ("transforms.at.format", "warning", True),
    ]
    assert found[1].what == "S is milliseconds: .123456 is 123456 ms. Write SSS"
    assert any(
        "transforms.at.format is valid but probably a mistake" in record.getMessage() for record in caplog.records
    )


def test_doubts_of_a_connector_are_warnings(checking: Checking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Connector, "doubts", lambda connector, config: {"tasks.max": f"{config['tasks.max']} are many"})
    found = [line for line in checking.lines(source(10) | {"tasks.max": "9"}, "new") if line.check == "validation"]
    assert [(line.setting, line.level, line.what) for line in found[1:]] == [("tasks.max", "warning", "9 are many")]


def test_every_wrong_setting_is_a_line_and_what_can_be_looked_at_is_looked_at(checking: Checking) -> None:
    found = checking.lines(source(10) | {"tasks.max": "0", "errors.tolerance": "some"}, "new")
    wrong = {line.setting for line in found if line.check == "validation"}
    assert wrong == {"tasks.max", "errors.tolerance"}
    assert [line.level for line in found if line.check == "host"] == ["ok"]
    (only,) = checking.lines({"connector.class": "Nothing"})
    assert (only.check, only.setting, only.ok) == ("validation", "connector.class", False)


def test_an_existing_name_is_reported_with_its_position(checking: Checking) -> None:
    line = checking.line("name", name="src")
    assert (line.level, line.ok) == ("warning", True)
    assert "resumes from its stored offsets" in checking.line("offsets", name="src").what
    with pytest.raises(NotFoundError):
        checking.lines(name="none")


def test_old_offsets_of_a_name_are_named_with_what_to_do() -> None:
    line = offset_line("old", ['{"f":"x"} at {"p":3}'] * 5, there=False, sink=False)
    assert line.level is Level.WARNING
    assert 'would resume at {"f":"x"} at {"p":3}' in line.what
    assert "and 2 more" in line.what
    assert "DELETE /connectors/old/offsets" in line.change


def test_a_sink_whose_group_others_use_collides_and_its_offsets_are_named(
    checking: Checking, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = {"connector.class": "MemorySink", "topics": "t"}
    checking.cluster.write("t", ["x"] * 5, 0)
    groups = checking.worker.herder._deps.group_offsets
    groups.alter({}, "connect-others", {TopicPartition("t", 0): 4})
    assert "would resume at t-0 at 4" in checking.line("offsets", config, "others").what
    assert checking.line("name", config, "others").level == "ok"
    monkeypatch.setattr(type(groups), "is_in_use", lambda *_: True)
    line = checking.line("name", config, "others")
    assert (line.level, "connect-others has members" in line.what) == ("problem", True)


@pytest.mark.parametrize(
    ("rights", "level", "words"),
    [
        (TopicRights(3, True, None), "ok", "3 partitions"),
        (TopicRights(3, None, None), "ok", "3 partitions"),
        (TopicRights(3, False, True), "problem", "may not read"),
        (None, "warning", "does not exist"),
    ],
)
def test_topics_of_a_sink(checking: Checking, rights: TopicRights | None, level: str, words: str) -> None:
    checking.clusters.there = {} if rights is None else {"t": rights}
    line = checking.line("topic", {"connector.class": "MemorySink", "topics": "t"}, "new")
    assert (line.setting, line.level) == ("topics", level)
    assert words in line.what
    by_pattern = checking.line("topic", {"connector.class": "MemorySink", "topics.regex": "t.*"}, "new")
    assert by_pattern.level == level


def test_the_topic_of_a_source_may_be_written_or_made(checking: Checking) -> None:
    config = source(10) | {"topic": "absent"}
    assert checking.line("topic", config, "new").level == "warning"
    made = {"topic.creation.default.partitions": "1", "topic.creation.default.replication.factor": "3"}
    assert "can be created" in checking.line("topic", config | made, "new").what
    checking.clusters.why_not = "replication factor is larger than 1"
    line = checking.line("topic", config | made, "new")
    assert (line.level, "larger than 1" in line.what) == ("problem", True)
    checking.clusters.there = {"absent": TopicRights(1, True, False)}
    assert checking.line("topic", config, "new").level == "problem"


def test_values_of_references_are_checked(checking: Checking) -> None:
    made = {"topic.creation.default.partitions": "${said:7:it}", "topic.creation.default.replication.factor": "1"}
    line = checking.line("topic", source(10) | made | {"topic": "${said:fresh:it}"}, "new")
    assert (line.level, line.what) == ("ok", 'topic "[hidden]" does not exist and can be created')
    (plan,) = checking.clusters.plans
    assert (plan.name, plan.partitions) == ("fresh", 7)
    sink = {"connector.class": "MemorySink", "tasks.max": "1", "topics": "${said:t:it}"}
    assert "has 2 partitions and may be read" in checking.line("topic", sink, "new").what
    assert checking.line("topic", sink | {"topics": "${said:absent:it}"}, "new").level == "warning"


def test_the_dead_letter_topic_must_be_possible(checking: Checking) -> None:
    config = {"connector.class": "MemorySink", "topics": "t", "errors.deadletterqueue.topic.name": "dead"}
    assert checking.line("dead letters", config, "new").level == "ok"
    checking.clusters.why_not = "3 copies, 1 broker"
    line = checking.line("dead letters", config, "new")
    assert line.level == "problem"
    assert "errors.deadletterqueue.topic.replication.factor (now 3)" in line.change


def test_brokers_that_refuse_or_are_away(checking: Checking) -> None:
    override = {"producer.override.bootstrap.servers": "b:9092", "producer.override.security.protocol": "SASL_SSL"}
    checking.clusters.refusal = BadConfigError({"sasl.jaas.config": ["the broker does not know this user"]})
    line = checking.line("credentials", source(1) | override, "new")
    assert (line.setting, line.level) == ("sasl.jaas.config", "problem")
    checking.clusters.refusal = RetriableError("no broker answered")
    found = [check_line for check_line in checking.lines(source(1) | override, "new") if check_line.check == "host"]
    assert [(check_line.setting, check_line.level) for check_line in found] == [
        ("producer.override.bootstrap.servers", "problem")
    ]
    checking.clusters.refusal = None
    assert checking.line("credentials", source(1) | override, "new").level == "ok"
    assert checking.clusters.asked[-1]["bootstrap.servers"] == "b:9092"


def test_a_connectors_own_checks_come_last_and_no_line_holds_a_secret(checking: Checking) -> None:
    jaas = 'x required username="u" password="s3cr3t-pass";'
    config = source(1) | {"connector.class": "Probing", "producer.override.sasl.jaas.config": jaas}
    found = checking.lines(config, "new")
    assert found[-1].check == "moon"
    assert "ValueError: odd" in [line.what for line in found if line.check == "credentials"]
    assert "s3cr3t-pass" not in repr(found)
    assert "[hidden]" in found[-1].what


def test_a_check_that_does_not_return_is_a_problem_and_their_number_is_bounded() -> None:
    ended = threading.Event()

    def hangs() -> Sequence[Finding]:
        ended.wait(10)
        return []

    parallel = ParallelChecks(0.2, most=3)
    fine = PlannedCheck("x", "s", lambda: [Finding("x", "s", Level.OK, "fine")])
    begun = time.monotonic()
    found = parallel.run([PlannedCheck("host", "url", hangs), fine, PlannedCheck("host", "url", hangs)])
    assert time.monotonic() - begun < 2
    assert [finding.level for finding in found] == [Level.PROBLEM, Level.OK, Level.PROBLEM]
    assert "no answer within 0.2 s" in found[0].what
    with pytest.raises(ConnectError, match="have not returned"):
        parallel.run([fine, fine])
    ended.set()
    deadline = time.monotonic() + 5
    while True:
        try:
            assert parallel.run([fine, fine])
            return
        except ConnectError:
            assert time.monotonic() < deadline


ADDRESSES: list[tuple[str, str, list[str]]] = [
    ("connection.url", "jdbc:postgresql://u:p@db.example:5433/x?ssl=true", ["db.example:5433"]),
    ("connection.url", "jdbc:mysql://one,two:3307/x", ["one:3306", "two:3307"]),
    ("connection.url", "postgresql+psycopg://u:p@db.example/x", ["db.example:5432"]),
    ("connection.url", "jdbc:oracle:thin:@//ora:1522/svc", ["ora:1522"]),
    ("connection.url", "jdbc:oracle:thin:@ora:1522:sid", []),
    ("connection.url", "jdbc:sqlserver://mssql;databaseName=x", ["mssql:1433"]),
    ("connection.url", "jdbc:sqlite:/tmp/x.db", []),
    ("connection.url", "sqlite:////tmp/x.db", []),
    ("http.url", "https://u:p@[::1]:8443/a?b", ["[::1]:8443"]),
    ("http.url", "https://api.example/items", ["api.example:443"]),
    ("http.url", "https://${host}.example/items", []),
    ("value.converter.schema.registry.url", "http://a:1,http://b:2", ["a:1", "b:2"]),
    ("source.cluster.bootstrap.servers", "k1:9092, k2:9093", ["k1:9092", "k2:9093"]),
    ("mongo.hosts", "h:99999", []),
    ("transforms.x.regex", "a:1", []),
    ("file", "/tmp/a", []),
    ("odd", "http://" + "x" * 20_000, []),
    ("odd", "http://\ud800:80/", []),
]


@pytest.mark.parametrize(("setting", "value", "places"), ADDRESSES)
def test_hosts_of_settings(setting: str, value: str, places: list[str]) -> None:
    assert [str(address) for address in addresses_in({setting: value})] == places
    assert addresses_in({setting: value}, {setting}) == []


def test_a_host_that_answers_and_one_that_does_not() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        (line,) = reached(ConfiguredAddress("url", "127.0.0.1", port))
        assert line.level is Level.OK
    (line,) = reached(ConfiguredAddress("url", "127.0.0.1", port))
    assert (line.level, "refused" in line.what.lower()) == (Level.PROBLEM, True)
    (line,) = reached(ConfiguredAddress("url", "no-such-host.invalid", 80))
    assert line.level is Level.PROBLEM


def test_hosts_are_probed_from_an_executor_or_the_worker_and_the_line_says_where(checking: Checking) -> None:
    asked: list[tuple[Sequence[tuple[str, int]], float]] = []

    def executor(places: Sequence[tuple[str, int]], limit_s: float) -> Obstacles:
        asked.append((places, limit_s))
        return Obstacles("exec-1", ["", "unknown host"])

    def none_free(places: Sequence[tuple[str, int]], limit_s: float) -> Obstacles:
        raise TimedOutError("no executor had a free core")

    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        config = {**source(10), "a.url": f"http://127.0.0.1:{port}/x", "b.url": "http://b.invalid:81"}
        worker = checking.worker.herder._deps
        found = {}
        for name, reach in (("executor", executor), ("busy", none_free), ("no Spark", None)):
            checks = ConnectorChecks(worker, checking.worker.herder, checking.clusters, limit_s=5, reach=reach)
            lines = checks.check(CheckRequest("new", config)).lines
            found[name] = {
                line.setting: (line.ok, line.where) for line in lines if line.setting in ("a.url", "b.url", "topic")
            }
            assert ("from executor exec-1" in " ".join(line.what for line in lines)) is (name == "executor")
    here = "worker w1:8083"
    assert found["executor"] == {
        "a.url": (True, "executor exec-1"),
        "b.url": (False, "executor exec-1"),
        "topic": (True, here),
    }
    assert found["busy"] == found["no Spark"] == {"a.url": (True, here), "b.url": (False, here), "topic": (True, here)}
    assert asked == [([("127.0.0.1", port), ("b.invalid", 81)], EXECUTOR_LIMIT_S)]


def test_executor_probe_connects_in_parallel_and_reports_failures() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        part = pickle.loads(pickle.dumps(ReachPart([("127.0.0.1", port), ("no.such.invalid", 1)], 2.0)))
        assert list(part(iter([0]))) == [socket.gethostname(), "", "unknown host"]


def test_settings_that_nothing_reads_are_warnings_with_the_name_that_was_meant(checking: Checking) -> None:
    config = {**source("src2", topic="t"), **STRINGS, "task.max": "2", "value.converter.schemas.enabled": "false"}
    warned = {line.setting: line.what for line in checking.lines(config) if line.level == "warning"}
    assert warned["task.max"].endswith("Did you mean tasks.max?")
    assert "value.converter.schemas.enabled" in warned
