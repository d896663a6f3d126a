"""A stored task set that is incomplete is generated again, but not over and over before the new one can be read."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from spark_connect_rt.runtime.herder.steps.forwarding import HandedIn
from spark_connect_rt.runtime.herder.steps.publishing import REPAIR_PAUSE_MS, Publishing
from spark_connect_rt.runtime.worker.events import TaskConfigsGenerated
from spark_connect_rt.state.target_state import TargetState

SNAPSHOT = SimpleNamespace(
    inconsistent={"a"},
    overtaken=set(),
    session_key=None,
    contains=lambda name: True,
    target_state=lambda name: TargetState.STARTED,
    connector_config=lambda name: {},
)
STATE: Any = SimpleNamespace(
    resolved=True,
    stopping=False,
    is_leader=False,
    held=SimpleNamespace(connectors={"a"}),
    standing=SimpleNamespace(leader_url="http://leader:8083/"),
    protocol=SimpleNamespace(version=1),
)


class Story:
    """A worker with connector ``a``, whose leader takes what is handed in; none of it is read here yet."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.generated = 0
        self.handed_in: list[HandedIn] = []
        deps: Any = SimpleNamespace(config_store=SimpleNamespace(snapshot=lambda: SNAPSHOT))
        worker: Any = SimpleNamespace(generate_task_configs=self._generate)
        forwarding: Any = SimpleNamespace(hand_in=self._hand_in, answers=lambda: self.handed_in)
        calls: Any = SimpleNamespace(busy=False)
        self._publishing = Publishing(deps, STATE, worker, forwarding, calls)

    def publish_until(self, end_ms: int) -> None:
        while self.now_ms < end_ms:
            self._publishing.publish(self.now_ms)
            self.now_ms += 100

    def _generate(self, connector: str) -> None:
        self.generated += 1
        self._publishing.take(TaskConfigsGenerated(connector, {}, ()), self.now_ms)

    def _hand_in(self, leader_url: str, connector: str, configs: Any, key: bytes | None) -> None:
        self.handed_in.append(HandedIn(connector, None))


def test_an_incomplete_task_set_is_handed_in_once_in_a_pause() -> None:
    story = Story()
    story.publish_until(REPAIR_PAUSE_MS)
    assert (story.generated, len(story.handed_in)) == (1, 1)
    story.publish_until(2 * REPAIR_PAUSE_MS)
    assert (story.generated, len(story.handed_in)) == (2, 2)
