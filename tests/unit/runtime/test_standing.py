"""How everything of a worker stands, from what has changed."""

from __future__ import annotations

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.group.work_plan import Life, RunningWork
from spark_connect_rt.runtime.worker.worker import NOTHING_HERE

ALIVE, STOPPING, STOPPED = (RunningWork("key", False, life) for life in (Life.ALIVE, Life.STOPPING, Life.STOPPED))
TASK, OTHER = ConnectorTaskId("a", 0), ConnectorTaskId("b", 0)


def test_snapshot_changes_only_changed_work() -> None:
    first = NOTHING_HERE.changed({"a": ALIVE, "b": STOPPING}, {TASK: STOPPING, OTHER: ALIVE})
    assert (first.stopping_connectors, first.stopping_tasks) == (("b",), (TASK,))
    then = first.changed({"b": None, "c": ALIVE}, {TASK: STOPPED})
    assert (dict(then.connectors), dict(then.tasks)) == ({"a": ALIVE, "c": ALIVE}, {TASK: STOPPED, OTHER: ALIVE})
    assert (then.stopping_connectors, then.stopping_tasks) == ((), ())
    assert dict(first.connectors) == {"a": ALIVE, "b": STOPPING}, "who has it sees no change"


def test_unchanged_work_keeps_the_same_mapping() -> None:
    first = NOTHING_HERE.changed({"a": ALIVE}, {TASK: ALIVE})
    assert first.changed({"a": ALIVE, "gone": None}, {TASK: ALIVE}) is first
    assert first.changed({"a": STOPPING}, {}).tasks is first.tasks
