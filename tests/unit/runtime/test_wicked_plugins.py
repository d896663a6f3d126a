"""Every call into a plug-in raises what a program may raise, answers nonsense, or hangs: the worker shrugs.

The connector or task of it fails with a trace that shows it, its neighbours run on, and no thread is left behind.
``./test.sh stress`` tries all calls that hang and prints a table. Calls that kill their process are in
``tests/integration/spark/test_killing_plugins.py``.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from spark_connect_rt.api.config_provider import ConfigProvider
from spark_connect_rt.api.connector import SinkConnector, SourceConnector
from spark_connect_rt.api.converter import Converter
from spark_connect_rt.api.data.schema import SchemaAndValue
from spark_connect_rt.api.predicate import Predicate
from spark_connect_rt.api.records import SourceRecord
from spark_connect_rt.api.task import SinkTask, SourceTask
from spark_connect_rt.api.transformation import Transformation
from spark_connect_rt.config.config_def import ConfigDef
from spark_connect_rt.runtime.herder.herder_requests import CreateConnector, DeleteConnector
from spark_connect_rt.testing.in_process_cluster import InProcessCluster
from spark_connect_rt.testing.memory_connectors import delivered, faults
from tests.support.outcome_table import STRESS, OutcomeTable, name_of_fault
from tests.unit.runtime.cluster_stories import source

WRONG: dict[str, Any] = {}  # call -> what it raises, or answers

LATER: dict[str, Any] = {}  # the same, once the connector starts: validation makes these plug-ins, too

ERRORS = [ValueError("wicked"), SystemExit("wicked"), KeyboardInterrupt("wicked"), GeneratorExit("wicked")]
NONSENSE, HANG = object(), object()
FAULTS = {id(NONSENSE): "nonsense", id(HANG): "hangs"}
LIMIT_S = 60.0
TABLE = OutcomeTable("plug-in calls: what became of the connector, while its neighbours ran on")
entered, released = threading.Event(), threading.Event()  # of a call that hangs


def at(call: str, answer: Any = None) -> Any:
    """Raise what is ordered, return what is ordered, else ``answer``."""
    wrong = WRONG.get(call)
    if wrong is HANG:
        entered.set()
        released.wait(LIMIT_S)
        return answer
    if isinstance(wrong, BaseException):
        raise wrong
    return answer if wrong is None else wrong


class _Wicked:
    def config_def(self) -> ConfigDef:
        return ConfigDef(())

    def version(self) -> str:
        return at("version", "1")  # type: ignore[no-any-return]

    def start(self, config: Mapping[str, str]) -> None:
        self.name = config["name"]
        WRONG.update(LATER)
        at("connector.start")

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return at("task_configs", [{"name": self.name}])  # type: ignore[no-any-return]

    def stop(self) -> None:
        at("connector.stop")


class WickedSource(_Wicked, SourceConnector):
    def task_class(self) -> type[SourceTask]:
        return at("task_class", WickedSourceTask)  # type: ignore[no-any-return]


class WickedSink(_Wicked, SinkConnector):
    def task_class(self) -> type[SinkTask]:
        return at("task_class", WickedSinkTask)  # type: ignore[no-any-return]


class WickedSourceTask(SourceTask):
    def start(self, config: Mapping[str, str]) -> None:
        at("task.start")
        self.sent = 0

    def poll(self) -> Sequence[SourceRecord]:
        self.sent += 1
        record = SourceRecord({"p": "w"}, {"n": self.sent}, "wicked", value=f"w{self.sent}")
        return at("poll", [record] if self.sent < 4 else [])  # type: ignore[no-any-return]

    def idle_wait_ms(self) -> int:
        return at("idle_wait_ms", 10)  # type: ignore[no-any-return]

    def commit(self) -> None:
        at("commit")

    def commit_record(self, record: SourceRecord, metadata: object) -> None:
        at("commit_record")

    def stop(self) -> None:
        at("task.stop")


class WickedSinkTask(SinkTask):
    def start(self, config: Mapping[str, str]) -> None:
        at("task.start")

    def open(self, partitions: object) -> None:
        at("open")

    def put(self, records: Sequence[Any]) -> None:
        at("put")

    def pre_commit(self, offsets: Any) -> Any:
        return at("pre_commit", offsets)

    def close(self, partitions: object) -> None:
        at("close")

    def stop(self) -> None:
        at("task.stop")


class WickedConverter(Converter):
    def config_def(self) -> ConfigDef:
        return ConfigDef(())

    def configure(self, config: Mapping[str, str], is_key: bool = False) -> None:
        at("converter.configure")

    def from_connect_data(self, topic: str, schema: Any, value: Any) -> bytes | None:
        return at("from_connect_data", b"x")  # type: ignore[no-any-return]

    def to_connect_data(self, topic: str, data: Any) -> Any:
        return at("to_connect_data", SchemaAndValue(None, "x"))


class WickedTransformation(Transformation):
    def config_def(self) -> ConfigDef:
        return ConfigDef(())

    def configure(self, config: Mapping[str, str]) -> None:
        at("transform.configure")

    def apply(self, record: Any) -> Any:
        return at("apply", record)

    def close(self) -> None:
        at("transform.close")


class WickedPredicate(Predicate):
    def config_def(self) -> ConfigDef:
        return ConfigDef(())

    def configure(self, config: Mapping[str, str]) -> None:
        at("predicate.configure")

    def test(self, record: Any) -> bool:
        return at("predicate.test", True)  # type: ignore[no-any-return]

    def close(self) -> None:
        at("predicate.close")


class WickedProvider(ConfigProvider):
    def configure(self, config: Mapping[str, str]) -> None: ...

    def get(self, path: str, keys: Any = None) -> Any:
        return at("provider.get", {"k": "v"})


PLUGINS = {
    cls.__name__: cls
    for cls in (WickedSource, WickedSink, WickedConverter, WickedTransformation, WickedPredicate, WickedProvider)
}


@pytest.fixture(scope="module")
def cluster(pytestconfig: pytest.Config) -> Iterator[InProcessCluster]:
    """One worker for all of this, as it has to survive it, with a neighbour that runs all the time."""
    faults.clear()
    delivered.clear()
    providers = {"config.providers": "w", "config.providers.w.class": "WickedProvider"}
    with InProcessCluster(PLUGINS, providers) as running:
        running.add_worker()
        running.on_leader(lambda herder: herder.submit(CreateConnector("neighbour", source(records=1))))
        running.until(lambda: running.states("neighbour") == RUNNING_NEIGHBOUR)
        yield running
        WRONG.clear()
        LATER.clear()
        # A thread that has nothing to do is kept for a moment, under its last name.
        running.until(lambda: not [thread.name for thread in threading.enumerate() if "bad" in thread.name])
    TABLE.print(pytestconfig)


RUNNING_NEIGHBOUR = {"neighbour": "RUNNING", "neighbour-0": "RUNNING"}
OF_SOURCE = {
    "connector.class": "WickedSource",
    "value.converter": "StringConverter",
    "key.converter": "StringConverter",
}
OF_SINK = OF_SOURCE | {
    "connector.class": "WickedSink",
    "topics": "w",
    "consumer.override.auto.offset.reset": "earliest",
}
CONVERTING = OF_SOURCE | {"value.converter": "WickedConverter"}
TRANSFORMING = OF_SOURCE | {"transforms": "t", "transforms.t.type": "WickedTransformation"}
PREDICATING = TRANSFORMING | {
    "transforms.t.predicate": "p",
    "predicates": "p",
    "predicates.p.type": "WickedPredicate",
}
REFERRING = OF_SOURCE | {"secret": "${w:path:k}"}

VALIDATED = ("transform", "predicate", "provider", "converter")
CONNECTOR, TASK, TROUBLED, RUNS = "connector FAILED", "task FAILED", "RUNNING with a trace", "RUNNING"
# call, configuration, what is FAILED when it raises, what when it answers nonsense (None: it answers nothing)
CALLS: list[tuple[str, Mapping[str, str], str, str | None]] = [
    ("version", OF_SOURCE, CONNECTOR, RUNS),
    ("connector.start", OF_SOURCE, CONNECTOR, None),
    ("task_configs", OF_SOURCE, TROUBLED, TROUBLED),
    ("task_class", OF_SOURCE, TROUBLED, TROUBLED),
    ("connector.stop", OF_SOURCE, RUNS, None),
    ("task.start", OF_SOURCE, TASK, None),
    ("poll", OF_SOURCE, TASK, TASK),
    ("idle_wait_ms", OF_SOURCE, TASK, TASK),
    ("commit", OF_SOURCE, RUNS, None),
    ("commit_record", OF_SOURCE, RUNS, None),
    ("task.stop", OF_SOURCE, RUNS, None),
    ("task.start", OF_SINK, TASK, None),
    ("open", OF_SINK, TASK, None),
    ("put", OF_SINK, TASK, None),
    ("pre_commit", OF_SINK, RUNS, None),
    ("close", OF_SINK, RUNS, None),
    ("task.stop", OF_SINK, RUNS, None),
    ("converter.configure", CONVERTING, TASK, None),
    ("from_connect_data", CONVERTING, TASK, TASK),
    ("to_connect_data", OF_SINK | {"value.converter": "WickedConverter"}, TASK, TASK),
    ("transform.configure", TRANSFORMING, TASK, None),
    ("apply", TRANSFORMING, TASK, TASK),
    ("transform.close", TRANSFORMING, RUNS, None),
    ("predicate.configure", PREDICATING, TASK, None),
    ("predicate.test", PREDICATING, TASK, RUNS),
    ("predicate.close", PREDICATING, RUNS, None),
    ("provider.get", REFERRING, TASK, TASK),
]
CASES = [(call, config, error, raised) for call, config, raised, _ in CALLS for error in ERRORS] + [
    (call, config, NONSENSE, answered) for call, config, _, answered in CALLS if answered is not None
]
IDS = [f"{call} of {config['connector.class'][6:]}: {type(wrong).__name__}" for call, config, wrong, _ in CASES]


@pytest.mark.parametrize(("call", "config", "wrong", "outcome"), CASES, ids=IDS)
def test_plugin_call_that_fails_or_answers_wrongly_fails_only_its_connector(
    cluster: InProcessCluster, call: str, config: Mapping[str, str], wrong: Any, outcome: str
) -> None:
    WRONG.clear()
    LATER.clear()
    cluster.write("w", ["x"])
    (LATER if call.partition(".")[0] in VALIDATED else WRONG)[call] = wrong
    try:
        cluster.on_leader(lambda herder: herder.submit(CreateConnector("bad", dict(config))))
        cluster.until(lambda: outcome_of(cluster) == outcome)
        TABLE.note(row_of(call, config), name_of_fault(wrong, FAULTS), outcome)
        assert cluster.states("neighbour") == RUNNING_NEIGHBOUR
        if outcome != RUNS:
            assert "wicked" in traces(cluster) or wrong is NONSENSE
    finally:
        cluster.on_leader(lambda herder: herder.submit(DeleteConnector("bad")))
        cluster.until(lambda: cluster.states("bad") == {})
    assert cluster.states("neighbour") == RUNNING_NEIGHBOUR
    (worker,) = cluster.workers.values()
    assert worker.supervisor.troubles() == ""


HANGING = [(call, config) for call, config, *_ in CALLS if STRESS or call in ("connector.start", "poll", "put")]


@pytest.mark.parametrize(("call", "config"), HANGING, ids=[f"{call}: hangs" for call, _ in HANGING])
def test_plugin_call_that_hangs_holds_up_no_other(
    cluster: InProcessCluster, call: str, config: Mapping[str, str]
) -> None:
    WRONG.clear()
    LATER.clear()
    entered.clear()
    released.clear()
    cluster.write("w", ["x"])
    (LATER if call.partition(".")[0] in VALIDATED else WRONG)[call] = HANG
    leader, at_end = cluster.leader(), call.endswith(("stop", "close"))
    try:
        leader.submit(CreateConnector("bad", dict(config)))
        if at_end:  # these are called when the connector ends
            cluster.until(lambda: outcome_of(cluster) == RUNS)
            cluster.write("w", ["y"])
            leader.submit(DeleteConnector("bad"))
        assert entered.wait(LIMIT_S)
        cluster.on_leader(lambda herder: herder.submit(CreateConnector("other", source(records=1))))
        cluster.until(lambda: cluster.states("other") == {"other": "RUNNING", "other-0": "RUNNING"})
        cluster.on_leader(lambda herder: herder.submit(DeleteConnector("other")))
        assert cluster.states("neighbour") == RUNNING_NEIGHBOUR
        TABLE.note(row_of(call, config), "hangs", outcome_of(cluster) or ("being deleted" if at_end else "starting"))
    finally:
        if not at_end:
            leader.submit(DeleteConnector("bad"))
        released.set()
        cluster.until(lambda: cluster.states("bad") == {})
        WRONG.clear()
    (worker,) = cluster.workers.values()
    assert worker.supervisor.troubles() == ""


def row_of(call: str, config: Mapping[str, str]) -> str:
    """Return the name of a row of the table."""
    return f"{call} of {config['connector.class'].removeprefix('Wicked').lower()}"


def outcome_of(cluster: InProcessCluster) -> str:
    """Return what became of the connector, as its status shows it; empty: it is on its way."""
    states = cluster.states("bad")
    if states.get("bad") == "FAILED":
        return CONNECTOR
    if states.get("bad-0") == "FAILED":
        return TASK
    if states == {"bad": "RUNNING", "bad-0": "RUNNING"}:
        return RUNS
    return TROUBLED if states == {"bad": "RUNNING"} and traces(cluster) else ""


def traces(cluster: InProcessCluster) -> str:
    (worker,) = cluster.workers.values()
    status = worker.herder.views.connector_status("bad")
    return "".join(task.trace or "" for task in (status.connector, *status.tasks))
