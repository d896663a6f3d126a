"""Every setting that connectors have in common, given as ``${provider:...}``: it does what the plain value does.

One worker runs two connectors for each setting, one with the value and one with a reference to it. What differs
between the two is compared: states, tasks, records, topics, offsets, consumer groups and what tasks are launched with.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from spark_connect_rt.config.connector_config import SINK, SOURCE
from spark_connect_rt.engine.task_runner import Start, TaskLaunch
from spark_connect_rt.records.transforms.predicates import RecordIsTombstone
from spark_connect_rt.records.transforms.routers import RegexRouter
from spark_connect_rt.runtime.herder.dependencies import HerderDependencies
from spark_connect_rt.runtime.herder.health import health_of
from spark_connect_rt.runtime.herder.herder_requests import ReadOffsets
from spark_connect_rt.testing.in_process_cluster import InProcessCluster
from spark_connect_rt.testing.memory_connectors import MemorySink, MemorySource, delivered
from tests.unit.runtime.cluster_stories import Said, create
from tests.unit.runtime.test_sink_story import numbers

PLAIN, REFERENCE = "plain", "reference"
RECORDS = 20
NEVER = {"name"}  # it is the key of the configuration: what REST calls the connector
HEALTH = {
    "errors.restart.policy": "backoff",
    "errors.restart.delay.ms": "77",
    "errors.restart.delay.max.ms": "770",
    "errors.restart.max": "7",
    "errors.restart.window.ms": "7777",
    "errors.restart.poison": "2",
    "task.progress.timeout.ms": "70000",
}
COMMON = {
    "connector.plugin.version": "1.0",
    "tasks.max": "2",
    "tasks.max.enforce": "false",
    "key.converter": "StringConverter",
    "key.converter.plugin.version": "1.0",
    "value.converter": "StringConverter",
    "value.converter.plugin.version": "1.0",
    "header.converter": "SimpleHeaderConverter",
    "header.converter.plugin.version": "1.0",
    "transforms": "note",
    "predicates": "gone",
    "config.action.reload": "none",
    "errors.retry.timeout": "9",
    "errors.retry.delay.max.ms": "8",
    "errors.tolerance": "all",
    "errors.log.enable": "true",
    "errors.log.include.messages": "true",
    "connectrt.isolation": "process",
    "connectrt.runtime": "python",
    "connectrt.java.heap": "99m",
    "connectrt.java.options": "-Da=b",
    **HEALTH,
}
OF_SOURCES = {
    **COMMON,
    "connector.class": "MemorySource",
    "topic.creation.groups": "made",
    "exactly.once.support": "requested",
    "transaction.boundary": "interval",
    "transaction.boundary.interval.ms": "300",
    "offsets.storage.topic": "own-{name}",
}
OF_SINKS = {
    **COMMON,
    "connector.class": "MemorySink",
    "topics": "in",
    "topics.regex": "i.",
    "errors.deadletterqueue.topic.name": "letters-{name}",
    "errors.deadletterqueue.topic.replication.factor": "1",
    "errors.deadletterqueue.context.headers.enable": "true",
    "connectrt.errors.put.refusals.max": "4",
    "tasks.max.auto": "1..3",
}
# Settings whose names no definition has: below a prefix.
BELOW_SOURCES = {
    "topic.creation.default.partitions": "3",
    "topic.creation.default.replication.factor": "1",
    "topic.creation.made.include": "t-.*",
    "topic": "u-{name}",
    "records": "3",
}
BELOW_SINKS = {"consumer.override.group.id": "group-{name}"}
# What a setting needs beside it to do anything.
BESIDE: dict[str, dict[str, str]] = {
    "tasks.max.enforce": {"split": "3"},
    "key.converter.plugin.version": {"key.converter": "StringConverter"},
    "value.converter.plugin.version": {"value.converter": "StringConverter"},
    "header.converter.plugin.version": {"header.converter": "SimpleHeaderConverter"},
    "transforms": {
        "transforms.note.type": "RegexRouter",
        "transforms.note.regex": "t-(.*)",
        "transforms.note.replacement": "routed-$1",
    },
    "predicates": {"predicates.gone.type": "RecordIsTombstone"},
    "topics.regex": {"topics": ""},
    "transaction.boundary": {"transaction.boundary.interval.ms": "100"},
    "transaction.boundary.interval.ms": {"transaction.boundary": "interval"},
    "errors.deadletterqueue.topic.name": {"errors.deadletterqueue.topic.replication.factor": "1"},
}
CREATION = {
    "topic.creation.groups": "made",
    "topic.creation.default.partitions": "2",
    "topic.creation.default.replication.factor": "1",
    "topic.creation.made.include": "t-.*",
    "topic.creation.made.partitions": "5",
}


class Pairs:
    """A worker, and what became of each connector on it."""

    def __init__(self, cluster: InProcessCluster) -> None:
        self.cluster = cluster
        self.launches: dict[str, list[TaskLaunch]] = {}
        self.deps: HerderDependencies | None = None
        cluster.on_made = self._made
        self.worker = cluster.add_worker()
        cluster.write("in", numbers(range(RECORDS)))

    def _made(self, _name: str, deps: HerderDependencies, _herder: object) -> None:
        do, self.deps = deps.runner.do, deps

        def noted(command: Any) -> None:
            if isinstance(command, Start):
                self.launches.setdefault(command.task.connector, []).append(command.launch)
            do(command)

        deps.runner.do = noted  # type: ignore[method-assign]

    def create(self, name: str, setting: str, value: str, way: str, *, sink: bool) -> None:
        """Create a connector with a setting, given as it is or by a reference."""
        base = {"connector.class": "MemorySink", "topics": "in"}
        if not sink:
            base = {"connector.class": "MemorySource", "topic": f"t-{name}", "records": "5", **CREATION}
        value = value.format(name=name)
        given = value if way == PLAIN else f"${{said:{value}:it}}"
        create(self.cluster, name, {"tasks.max": "1", **base, **BESIDE.get(setting, {}), setting: given})

    def settled(self, name: str) -> bool:
        """Return whether it has come as far as it comes."""
        states = self.cluster.states(name)
        if states.get(name) == "FAILED" or "FAILED" in states.values():
            return True
        tasks, offsets = len(states) - 1, [offset.offset or {} for offset in self.worker.herder.views.offsets(name)]
        if name.startswith("sink"):
            moved = len(delivered[name]) == RECORDS and offsets == [{"kafka_offset": RECORDS}]
        else:
            settings = self.worker.herder.views.connector_config(name).resolved(self.deps.resolve) if self.deps else {}
            expected = int(settings["records"])
            # A transaction ends in one topic after the other: offsets may be visible first.
            moved = offsets == [{"position": expected}] * tasks and len(self._values(name)) >= expected * tasks
        return tasks > 0 and set(states.values()) == {"RUNNING"} and moved

    def _values(self, name: str) -> list[bytes]:
        topics = {where.topic for where in self.cluster.topics.partitions if name in where.topic}
        return [value for topic in topics for value in self.cluster.topics.values(topic)]

    def effect(self, name: str) -> Any:
        """Return what the connector did, without its name."""
        assert self.deps is not None
        resolve, views, clients = self.deps.resolve, self.worker.herder.views, self.worker.runner._clients
        launches = sorted(
            {launch.task: launch for launch in self.launches.get(name, ())}.values(),
            key=lambda launch: launch.task,
        )
        offsets = self.worker.herder.submit(ReadOffsets(name)).result(10)
        topics = [where.topic for where in self.cluster.topics.partitions if name in where.topic]
        group = f"group-{name}" if name.endswith("group") else f"connect-{name}"
        found = (
            self.cluster.states(name),
            views.connector_info(name).type,
            {topic: sorted(map(bytes.decode, self.cluster.topics.values(topic))) for topic in topics},
            {topic: made for topic, made in clients.topics_made.items() if name in topic},
            {topic: made for topic, made in clients.topic_groups.items() if name in topic},
            [topic for topic in self.cluster.topics.logs if name in topic],
            sorted(map(str, offsets)),
            sorted(record.value for record in delivered[name]),
            self.cluster.consumer_groups.committed(group) if name.startswith("sink") else None,
            [
                (launch.isolation, launch.offsets_topic, launch.java, bool(launch.dead_letter_admin))
                for launch in launches
            ],
            [dict(launch.connector_config.resolved(resolve)) for launch in launches],
            [dict(launch.config.resolved(resolve)) for launch in launches],
            health_of(self.deps, views.connector_config(name)),
        )
        return str(found).replace(name, "NAME")


def cases() -> Iterator[tuple[str, str, str, bool]]:
    """Yield (name of the pair, setting, value, whether of a sink)."""
    for sink, table in ((False, OF_SOURCES | BELOW_SOURCES), (True, OF_SINKS | BELOW_SINKS)):
        for setting, value in table.items():
            if not sink or setting not in COMMON:
                name = f"{'sink' if sink else 'source'}-{setting.replace('.', '-')}"
                yield name.removesuffix("-id"), setting, value, sink


@pytest.fixture(scope="module")
def pairs() -> Iterator[Pairs]:
    classes = {
        "RegexRouter": RegexRouter,
        "RecordIsTombstone": RecordIsTombstone,
        "MemorySource@1.0": MemorySource,
        "MemorySink@1.0": MemorySink,
        "MemorySource%python": MemorySource,
    }
    versions = {f"{name}@1.0": name for name in ("StringConverter", "SimpleHeaderConverter")}
    config = {
        "config.providers": "said",
        "config.providers.said.class": "Said",
        "exactly.once.source.support": "enabled",  # else two settings have no effect at all
    }
    with InProcessCluster({"Said": Said, **classes}, config) as cluster:
        cluster._classes |= {name: cluster._classes[plain] for name, plain in versions.items()}
        made = Pairs(cluster)
        for name, setting, value, sink in cases():
            for way in (PLAIN, REFERENCE):
                made.create(f"{name}-{way}", setting, value, way, sink=sink)
        yield made


def test_the_table_has_every_setting_of_the_definitions() -> None:
    assert {key.name for key in SOURCE} - NEVER == OF_SOURCES.keys()
    assert {key.name for key in SINK} - NEVER == OF_SINKS.keys()


@pytest.mark.parametrize(("name", "setting", "value", "sink"), list(cases()))
def test_a_reference_does_what_the_value_does(pairs: Pairs, name: str, setting: str, value: str, sink: bool) -> None:
    plain, reference = f"{name}-{PLAIN}", f"{name}-{REFERENCE}"
    pairs.cluster.until(lambda: pairs.settled(plain) and pairs.settled(reference))
    assert pairs.effect(reference) == pairs.effect(plain)
    stored = pairs.worker.herder.views.connector_config(reference).written()
    assert "${said:" in stored[setting], "what is stored and shown stays unresolved"
