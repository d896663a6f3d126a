"""A stored task set that a compaction would lose is generated again and handed to the leader, at a walking pace."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from spark_connect_rt.runtime.herder.publishing import REPAIR_PAUSE_MS, Publishing
from spark_connect_rt.runtime.worker.events import TaskConfigsGenerated
from spark_connect_rt.state.target_state import TargetState

CONFIG = {"connector.class": "X"}
GENERATED = TaskConfigsGenerated("a", CONFIG, ({"n": "1"},))


class Story:
    """A follower whose leader takes every set at once, and whose topic shows it late."""

    def __init__(self) -> None:
        self.asked, self.handed, self._answers = 0, 0, list[Any]()
        self.snapshot = SimpleNamespace(
            inconsistent=frozenset(),
            overtaken=frozenset({"a"}),
            session_key=None,
            target_state=lambda _: TargetState.STARTED,
            contains=lambda _: True,
            connector_config=lambda _: CONFIG,
            connector_task_configs=lambda _: GENERATED.configs,
            applied_config=lambda _: CONFIG,
        )
        state = SimpleNamespace(
            resolved=True,
            stopping=False,
            is_leader=False,
            held=SimpleNamespace(connectors={"a"}),
            standing=SimpleNamespace(leader_url="http://leader/"),
            protocol=SimpleNamespace(version=1),
        )
        deps = SimpleNamespace(config_store=SimpleNamespace(snapshot=lambda: self.snapshot))
        parts: Any = (deps, state, SimpleNamespace(generate_task_configs=self._ask), self, None)
        self.publishing = Publishing(*parts)

    def _ask(self, _: str) -> None:
        self.asked += 1

    def hand_in(self, *_: object) -> None:
        self.handed += 1
        self._answers.append(SimpleNamespace(connector="a", error=None))

    def answers(self) -> list[Any]:
        taken, self._answers = self._answers, []
        return taken

    def tick(self, now_ms: int) -> int | None:
        asked = self.asked
        verdict = self.publishing.publish(now_ms)
        if self.asked > asked:
            self.publishing.take(GENERATED, now_ms)
            verdict = self.publishing.publish(now_ms)
        return verdict.wake_at_ms


def test_a_set_that_was_handed_in_is_given_time_to_be_in_the_topic() -> None:
    story = Story()
    for _ in range(20):
        wake_at_ms = story.tick(5)
    assert (story.asked, story.handed, wake_at_ms) == (1, 1, 5 + REPAIR_PAUSE_MS)
    story.tick(5 + REPAIR_PAUSE_MS)
    assert story.handed == 2


def test_a_set_that_is_lost_again_later_is_repaired_at_once() -> None:
    story = Story()
    story.tick(5)
    story.snapshot.overtaken = frozenset()
    story.tick(6)
    story.snapshot.overtaken = frozenset({"a"})
    story.tick(7)
    assert story.handed == 2
