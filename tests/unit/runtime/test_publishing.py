"""A stored task set that is incomplete is generated again, but not over and over before the new one can be read."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from spark_connect_rt.config.stored_config import NO_SETTINGS
from spark_connect_rt.errors import ConnectError
from spark_connect_rt.runtime.herder.steps.publishing import REPAIR_PAUSE_MS, PublishTaskConfigs, SubmittedRequest
from spark_connect_rt.runtime.worker.events import TaskConfigsGenerated
from spark_connect_rt.topics.config_records import TargetState

SNAPSHOT = SimpleNamespace(
    inconsistent={"a"},
    overtaken=set(),
    session_key=None,
    contains=lambda name: True,
    target_state=lambda name: TargetState.STARTED,
    connector_config=lambda name: NO_SETTINGS,
)
STATE: Any = SimpleNamespace(
    resolved=True,
    unsure=False,
    stopping=False,
    rejoin_asked=False,
    is_leader=False,
    own_group=True,
    held=SimpleNamespace(connectors={"a"}),
    standing=SimpleNamespace(leader_url="http://leader:8083/"),
    protocol=SimpleNamespace(version=1),
)


class Story:
    """A worker with connector ``a``, whose leader takes what is handed in; none of it is read here yet."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.generated = 0
        self.handed_in: list[SubmittedRequest] = []
        deps: Any = SimpleNamespace(config_store=SimpleNamespace(snapshot=lambda: SNAPSHOT))
        worker: Any = SimpleNamespace(generate_task_configs=self._generate)
        forwarding: Any = SimpleNamespace(hand_in=self._hand_in, answers=lambda: self.handed_in)
        calls: Any = SimpleNamespace(busy=False)
        self._publishing = PublishTaskConfigs(deps, STATE, worker, forwarding, calls)

    def publish_until(self, end_ms: int) -> None:
        while self.now_ms < end_ms:
            self._publishing.publish(self.now_ms)
            self.now_ms += 100

    def _generate(self, connector: str) -> None:
        self.generated += 1
        self._publishing.take(TaskConfigsGenerated(connector, NO_SETTINGS, ()), self.now_ms)

    def _hand_in(self, leader_url: str, connector: str, configs: Any, key: bytes | None) -> None:
        self.handed_in.append(SubmittedRequest(connector, None))


def test_an_incomplete_task_set_is_handed_in_once_in_a_pause() -> None:
    story = Story()
    story.publish_until(REPAIR_PAUSE_MS)
    assert (story.generated, len(story.handed_in)) == (1, 1)
    story.publish_until(2 * REPAIR_PAUSE_MS)
    assert (story.generated, len(story.handed_in)) == (2, 2)


class LeaderStory:
    """A leader with the connectors ``c0`` ..., whose answers all came; ``refused``: writes with it fail."""

    def __init__(self, count: int, refused: str = "") -> None:
        self.written: list[tuple[str, ...]] = []
        self._refused = refused
        self._done: Any = None
        names = {f"c{number}" for number in range(count)}
        snapshot = SimpleNamespace(**{**vars(SNAPSHOT), "inconsistent": names})
        store = SimpleNamespace(snapshot=lambda: snapshot, may_lead=lambda: True, put_task_configs=self._put)
        calls: Any = SimpleNamespace(busy=False, begin=self._begin)
        self.calls = calls
        state: Any = SimpleNamespace(**{**vars(STATE), "is_leader": True, "held": SimpleNamespace(connectors=names)})
        worker: Any = SimpleNamespace(generate_task_configs=lambda name: None)
        forwarding: Any = SimpleNamespace(answers=list)
        deps: Any = SimpleNamespace(config_store=store)
        self._publishing = PublishTaskConfigs(deps, state, worker, forwarding, calls)
        for name in sorted(names):
            self._publishing.take(TaskConfigsGenerated(name, {}, ({"a": "1"},)), 0)

    def publish(self, now_ms: int) -> None:
        self._publishing.publish(now_ms)
        if self.calls.busy:
            done, error, self.calls.busy = self._done, self._error, False
            done(error, now_ms)

    def _begin(self, _stage: str, call: Any, done: Any) -> None:
        self._done, self.calls.busy, self._error = done, True, None
        try:
            call()
        except ConnectError as error:
            self._error = error

    def _put(self, sets: dict[str, Any]) -> None:
        if self._refused in sets:
            raise ConnectError("too large")
        self.written.append(tuple(sets))


def test_task_sets_of_many_connectors_are_one_write() -> None:
    story = LeaderStory(50)
    story.publish(0)
    assert [len(names) for names in story.written] == [50]


def test_one_set_that_cannot_be_written_keeps_no_other_back() -> None:
    story = LeaderStory(5, refused="c2")
    for now_ms in range(0, 2_000, 50):
        story.publish(now_ms)
    assert {name for names in story.written for name in names} >= {"c0", "c1", "c3", "c4"}
    assert all("c2" not in names for names in story.written)
