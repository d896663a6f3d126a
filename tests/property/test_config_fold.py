"""Whatever compaction removed, the fold of what is left is the same snapshot (offset and hidden tasks aside)."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from spark_connect_rt.errors import DataError
from spark_connect_rt.protocol import config_records as records
from spark_connect_rt.protocol.ids import ConnectorTaskId
from spark_connect_rt.state.cluster_config import ClusterConfigState
from spark_connect_rt.state.config_fold import ConfigFold

Record = tuple[int, bytes, bytes | None]
Change = tuple[bytes, bytes | None]
NAMES = ("a", "a-1", "b")


@dataclass(frozen=True)
class Visible:
    """What anybody can see of a snapshot."""

    connectors: dict[str, tuple[object, ...]]
    count_records: dict[str, int]


def visible(state: ClusterConfigState) -> Visible:
    def of(name: str) -> tuple[object, ...]:
        tasks = state.tasks(name)
        return (
            state.connector_config(name),
            state.target_state(name),
            state.task_count(name),
            tasks,
            [state.task_config(task) for task in tasks],
            state.applied_config(name),
            name in state.inconsistent,
            name in state.pending_fencing,
        )

    return Visible({name: of(name) for name in state.connectors()}, dict(state.task_count_records))


def fold(history: list[Record]) -> ConfigFold:
    folded = ConfigFold()
    for offset, key, value in history:
        folded.apply(offset, key, value)
    return folded


def configure(name: str, version: int, count: int, target: str | None, fence: bool) -> list[Change]:
    """The records of one create or update, as the leader writes them: tasks follow every configuration."""
    changes: list[Change] = []
    if target is not None:
        changes.append((records.target_state_key(name), records.encode_target_state(target)))
    changes.append((records.connector_key(name), records.encode_properties({"v": str(version)})))
    for number in range(count):
        task = ConnectorTaskId(name, number)
        changes.append((records.task_key(task), records.encode_properties({"t": f"{version}-{number}"})))
    changes.append((records.commit_key(name), records.encode_commit(count)))
    if fence:
        changes.append((records.task_count_key(name), records.encode_task_count(count)))
    return changes


def delete(name: str) -> list[Change]:
    return [(records.connector_key(name), None), (records.target_state_key(name), None)]


names = st.sampled_from(NAMES)
states = st.sampled_from(["STARTED", "PAUSED", "STOPPED"])
operations = st.one_of(
    st.builds(configure, names, st.integers(0, 9), st.integers(0, 3), st.none() | states, st.booleans()),
    st.builds(delete, names),
    st.builds(lambda n, s: [(records.target_state_key(n), records.encode_target_state(s))], names, states),
)


@st.composite
def histories(draw: st.DrawFn) -> list[Record]:
    changes = [change for operation in draw(st.lists(operations, max_size=12)) for change in operation]
    return [(offset, key, value) for offset, (key, value) in enumerate(changes)]


@st.composite
def compacted(draw: st.DrawFn, history: list[Record]) -> list[Record]:
    """Some superseded records removed; the last of every key always stays."""
    last = {key: offset for offset, key, _ in history}
    return [it for it in history if last[it[1]] == it[0] or draw(st.booleans())]


@given(st.data())
def test_compaction_of_superseded_records_does_not_change_the_snapshot(data: st.DataObject) -> None:
    history = data.draw(histories())
    less = data.draw(compacted(history))
    assert visible(fold(less).snapshot()) == visible(fold(history).snapshot())
    assert fold(less).snapshot().offset == fold(history).snapshot().offset


@given(histories(), st.integers(0, 40))
def test_a_snapshot_after_a_prefix_says_what_the_prefix_says(history: list[Record], length: int) -> None:
    whole, prefix = ConfigFold(), fold(history[:length]).snapshot()
    for offset, key, value in history:
        if offset == min(length, len(history)):
            break
        whole.apply(offset, key, value)
    assert whole.snapshot() == prefix


keys = st.sampled_from(
    [
        b"connector-a",
        b"task-a-0",
        b"task-a-x",
        b"commit-a",
        b"target-state-a",
        b"tasks-fencing-a",
        b"session-key",
        b"restart-connector-a",
        b"logger-cluster-a",
        b"unknown",
        None,
    ]
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["properties", "tasks", "state", "state.v2", "task-count", "key", "level"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=5,
)
values = st.none() | st.binary(max_size=8) | json_values.map(lambda v: records.encode_json(v))


@given(st.lists(st.tuples(keys, values), max_size=10))
def test_whatever_is_in_the_topic_only_data_errors_come_out(history: list[tuple[bytes | None, bytes | None]]) -> None:
    folded = ConfigFold()
    for offset, (key, value) in enumerate(history):
        with contextlib.suppress(DataError):
            folded.apply(offset, key, value)
    state = folded.snapshot()
    assert state.offset <= len(history)
    for name in state.connectors():
        assert state.target_state(name) is not None
