"""Any rest of a compacted config topic folds into the same snapshot, apart from the offset and hidden tasks."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.errors import DataError
from spark_connect_rt.topics import config_records as records
from spark_connect_rt.topics.config_records import SessionKey
from spark_connect_rt.topics.config_state import ClusterConfigState, ConfigFold

Record = tuple[int, bytes, bytes | None]
Change = tuple[bytes, bytes | None]
NAMES = ("a", "a-1")


@dataclass(frozen=True)
class Visible:
    """The visible part of a snapshot."""

    connectors: dict[str, tuple[object, ...]]
    count_records: dict[str, int]
    session_key: SessionKey | None


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
            # Java leaves a deleted connector pending until its next commit. A connector without a commit since then has
            # no producers to fence.
            state.applied_config(name) is not None and name in state.pending_fencing,
        )

    return Visible({name: of(name) for name in state.connectors()}, dict(state.task_count_records), state.session_key)


def fold(history: list[Record]) -> ConfigFold:
    folded = ConfigFold()
    for offset, key, value in history:  # an old tombstone may be the rest of a key: it has no meaning
        folded.apply(offset, key, value)
    return folded


def target(name: str, state: str) -> list[Change]:
    return [(records.target_state_key(name), records.encode_target_state(state))]


def configure(name: str, version: int) -> list[Change]:
    return [(records.connector_key(name), records.encode_properties({"v": str(version)}))]


def task_set(name: str, version: int, count: int) -> list[Change]:
    tasks = [
        (records.task_key(ConnectorTaskId(name, number)), records.encode_properties({"t": f"{version}-{number}"}))
        for number in range(count)
    ]
    return [*tasks, (records.commit_key(name), records.encode_commit(count))]


def delete(name: str) -> list[Change]:
    return [(records.connector_key(name), None), (records.target_state_key(name), None)]


def beside(name: str, version: int) -> list[list[Change]]:
    """Return the records in between that change no connector: a key, a request, a level."""
    key = SessionKey(b"%d" % version, "HmacSHA256", version)
    return [
        [(records.session_key_key(), records.encode_session_key(key))],
        [(records.restart_key(name), records.encode_restart_request(include_tasks=True, only_failed=False))],
        [(records.logger_key("root"), records.encode_logger_level("DEBUG"))],
    ]


@st.composite
def histories(draw: st.DrawFn) -> list[Record]:
    """Draw the writes of leaders.

    An update is followed by its tasks. A new connector may not have generated any yet.
    """
    changes: list[Change] = []
    there: set[str] = set()
    for version in range(draw(st.integers(0, 10))):
        name = draw(st.sampled_from(NAMES))
        action = draw(st.sampled_from(["configure", "configure", "delete", "delete", "target", "beside"]))
        if action == "beside":
            changes += draw(st.sampled_from(beside(name, version)))
        elif action == "target":
            changes += target(name, draw(st.sampled_from(["STARTED", "PAUSED", "STOPPED"])))
        elif action == "delete":
            changes += delete(name)
            there.discard(name)
        else:
            changes += configure(name, version)
            if name in there or draw(st.booleans()):
                count = draw(st.integers(0, 3))
                changes += task_set(name, version, count)
                if draw(st.booleans()):
                    changes.append((records.task_count_key(name), records.encode_task_count(count)))
            there.add(name)
    return [(offset, key, value) for offset, (key, value) in enumerate(changes)]


@st.composite
def compacted(draw: st.DrawFn, history: list[Record]) -> list[Record]:
    """As a broker cleans: up to some offset only the last of every key stays, and old tombstones go."""
    end = draw(st.integers(0, len(history)))
    old = draw(st.integers(0, end))
    last = {key: offset for offset, key, _ in history[:end]}
    return [
        (offset, key, value)
        for offset, key, value in history
        if offset >= end or (last[key] == offset and (value is not None or offset >= old))
    ]


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_compaction_does_not_change_the_snapshot(data: st.DataObject) -> None:
    history = data.draw(histories())
    less = data.draw(compacted(history))
    assert visible(fold(less).snapshot()) == visible(fold(history).snapshot())


@st.composite
def unfinished_histories(draw: st.DrawFn) -> list[Record]:
    """Draw a history in which leaders die, users come back and appends fail: any record may be missing."""
    changes = [(key, value) for _, key, value in draw(histories()) if draw(st.integers(0, 4))]
    return [(offset, key, value) for offset, (key, value) in enumerate(changes)]


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_compaction_changes_only_overtaken_or_incomplete_connectors(data: st.DataObject) -> None:
    history = data.draw(unfinished_histories())
    whole = fold(history).snapshot()
    less = fold(data.draw(compacted(history))).snapshot()
    assert less.connector_configs == whole.connector_configs
    for name in whole.connectors():
        if name not in whole.overtaken | whole.inconsistent:
            assert less.tasks(name) == whole.tasks(name)
            assert less.connector_task_configs(name) == whole.connector_task_configs(name)


@st.composite
def histories_of_dying_leaders(draw: st.DrawFn) -> tuple[list[Record], set[str]]:
    """Task sets that end before their commit, at any record; names whose last set came to its commit."""
    changes: list[Change] = []
    finished: set[str] = set()
    for version in range(draw(st.integers(1, 10))):
        name = draw(st.sampled_from(NAMES))
        finished.discard(name)
        writes = [*configure(name, version), *task_set(name, version, draw(st.integers(0, 3)))]
        survived = draw(st.integers(1, len(writes))) if draw(st.booleans()) else len(writes)
        changes += writes[:survived]
        changes += draw(st.sampled_from([[], *beside(name, version)]))
        if survived == len(writes):
            finished.add(name)
    return [(offset, key, value) for offset, (key, value) in enumerate(changes)], finished


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_a_finished_task_set_survives_compaction_whatever_leaders_died_before_it(data: st.DataObject) -> None:
    history, finished = data.draw(histories_of_dying_leaders())
    whole, less = (visible(fold(it).snapshot()) for it in (history, data.draw(compacted(history))))
    assert less.session_key == whole.session_key
    for name in finished:
        assert less.connectors[name] == whole.connectors[name]


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
def test_any_topic_content_raises_only_data_errors(history: list[tuple[bytes | None, bytes | None]]) -> None:
    folded = ConfigFold()
    for offset, (key, value) in enumerate(history):
        with contextlib.suppress(DataError):
            folded.apply(offset, key, value)
    state = folded.snapshot()
    assert state.offset <= len(history)
    for name in state.connectors():
        assert state.target_state(name) is not None
