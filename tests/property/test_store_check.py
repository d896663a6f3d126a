"""``store check`` on random config topics that compaction went over: it finds every loss, and nothing else."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from spark_connect_rt.base.checked_lines import RawRecord
from spark_connect_rt.topics.store_check import Severity, Stored, StoreFinding, record_findings
from tests.property.test_config_fold import (
    Record,
    compacted,
    fold,
    histories,
    histories_of_dying_leaders,
    unfinished_histories,
)

NAMES = {"configs": "c", "offsets": "o", "statuses": "s"}


def findings(history: list[Record]) -> list[StoreFinding]:
    configs: list[RawRecord] = [(0, offset, key, value, offset) for offset, key, value in history]
    return record_findings(Stored(NAMES, configs, (), ()))


def damaged(history: list[Record]) -> set[str]:
    return {finding.subject for finding in findings(history) if finding.severity is Severity.DAMAGE}


def mended(history: list[Record]) -> list[Record]:
    changes = [change for finding in findings(history) for change in finding.repair]
    after = history[-1][0] + 1 if history else 0
    return [*history, *((after + at, key, value) for at, (key, value) in enumerate(changes))]


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_finished_writes_of_leaders_are_never_called_damaged(data: st.DataObject) -> None:
    less = data.draw(compacted(data.draw(histories())))
    assert damaged(less) == set()
    assert "uncommitted-tasks" not in {finding.code for finding in findings(less)}


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_every_task_set_that_compaction_took_apart_is_found(data: st.DataObject) -> None:
    history, finished = data.draw(histories_of_dying_leaders())
    less = data.draw(compacted(history))
    whole, left = fold(history).snapshot(), fold(less).snapshot()
    lost = {name for name in whole.connectors() if whole.tasks(name) and not left.tasks(name)}
    overtaken = {finding.subject for finding in findings(less) if finding.code == "commit-before-connector"}
    assert damaged(less) | overtaken >= lost
    assert not (damaged(less) | overtaken) & finished
    assert {
        finding.subject for finding in findings(history) if finding.severity is not Severity.LEFTOVER
    } >= lost  # in time, too
    assert all(not left.tasks(name) for name in damaged(less))  # damage means: it runs none of its tasks


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_repaired_topic_stays_repaired_after_another_compaction(data: st.DataObject) -> None:
    history = data.draw(st.one_of(unfinished_histories(), histories_of_dying_leaders().map(lambda drawn: drawn[0])))
    less = data.draw(compacted(history))
    repairable = {finding.subject for finding in findings(less) if finding.code == "tasks-without-commit"}
    after = mended(less)
    waiting = {
        finding.subject for finding in findings(after) if finding.code == "uncommitted-tasks"
    }  # a leader may be writing
    for again in (after, data.draw(compacted(after))):
        assert {finding.subject for finding in findings(again) if finding.code == "tasks-without-commit"} <= waiting
        state = fold(again).snapshot()
        assert all(len(state.tasks(name)) == state.task_count(name) > 0 for name in repairable)
        assert {finding.subject for finding in findings(again) if finding.repair} <= waiting
    assert not waiting & repairable
    assert not any(finding.repair for finding in findings(after))
