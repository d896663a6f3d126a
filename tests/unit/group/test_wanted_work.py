"""What ought to run: worked out for what changed only, and always what a whole look would say."""

from __future__ import annotations

import random

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.group.assignments import ConnectorsAndTasks
from spark_connect_rt.group.rebalance_plan import Restarts, WantedWork, wanted_connectors, wanted_tasks
from spark_connect_rt.topics import config_records as records
from spark_connect_rt.topics.config_state import LAST_CHANGES, ClusterConfigState, ConfigFold

NAMES = ("a", "b", "c", "d")
STATES = ("STARTED", "PAUSED", "STOPPED")


class _Topic:
    """A config topic that changes at random."""

    def __init__(self, seed: int) -> None:
        self.fold, self.random, self._offset = ConfigFold(), random.Random(seed), 0

    def write(self, name: str) -> None:
        content = str(self.random.randrange(3))
        self._record(
            *self.random.choice(
                [
                    (records.connector_key(name), records.encode_properties({"x": content})),
                    (records.connector_key(name), None),
                    (records.target_state_key(name), records.encode_target_state(self.random.choice(STATES))),
                    (records.task_key(ConnectorTaskId(name, 0)), records.encode_properties({"t": content})),
                    (records.commit_key(name), records.encode_commit(1)),
                    (records.commit_key(name), records.encode_commit(0)),
                ]
            )
        )

    def _record(self, key: bytes, value: bytes | None) -> None:
        self.fold.apply(self._offset, key, value)
        self._offset += 1

    def held(self) -> ConnectorsAndTasks:
        names = tuple(name for name in NAMES if self.random.random() < 0.5)
        return ConnectorsAndTasks(names, tuple(ConnectorTaskId(n, 0) for n in NAMES if self.random.random() < 0.5))


def test_it_says_what_a_whole_look_would_say() -> None:
    for seed in range(40):
        topic, wanted, restarts = _Topic(seed), WantedWork(), Restarts({})
        held = topic.held()
        for _ in range(60):
            for _ in range(topic.random.randrange(4)):
                topic.write(topic.random.choice(NAMES))
            if topic.random.random() < 0.1:
                held = topic.held()
            if topic.random.random() < 0.1:
                restarts = restarts.plus(topic.random.choice(NAMES))
            snapshot = topic.fold.snapshot()
            wanted = wanted.now(held, snapshot, restarts, exactly_once=bool(seed % 2))
            assert wanted.connectors == wanted_connectors(held, snapshot, restarts)
            assert wanted.tasks == wanted_tasks(held, snapshot, restarts, exactly_once=bool(seed % 2))


def test_change_of_work_held_elsewhere_changes_nothing_here() -> None:
    topic, restarts, held = _Topic(1), Restarts({}), ConnectorsAndTasks(("a",), (ConnectorTaskId("a", 0),))
    topic.write("a")
    before = WantedWork().now(held, topic.fold.snapshot(), restarts)
    for _ in range(20):
        topic.write("b")
    after = before.now(held, topic.fold.snapshot(), restarts)
    assert after.connectors is before.connectors
    assert after.tasks is before.tasks


def test_a_snapshot_names_its_last_changes_and_knows_what_it_does_not_know() -> None:
    topic = _Topic(2)
    topic.write("a")
    early: ClusterConfigState = topic.fold.snapshot()
    topic.write("b")
    assert topic.fold.snapshot().changed_since(early.offset) == frozenset({"b"})
    for _ in range(LAST_CHANGES - 1):
        topic.write("c")
    assert topic.fold.snapshot().changed_since(early.offset) == frozenset({"b", "c"})
    topic.write("c")
    assert topic.fold.snapshot().changed_since(early.offset) is None
    assert early.changed_since(topic.fold.snapshot().offset) is None  # of another history
