"""A run of changes is written together, and whoever reads the history does not wait for that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

import pytest

from spark_connect_rt.operations.history.recorder import Recorder, RequestedBy
from spark_connect_rt.operations.history.store import Draft, HistoryStore
from spark_connect_rt.runtime.herder.herder_requests import CreateConnector
from spark_connect_rt.topics.config_diff import DeclaredSettings
from spark_connect_rt.topics.config_state import CONFIG, ConfigChange

ASKED = RequestedBy("ada@h", "", True)


class WritesNoted:
    def __init__(self) -> None:
        self.writes: list[list[str]] = []

    def append(self, drafts: Sequence[Draft]) -> list[int]:
        self.writes.append([draft.change.connector for draft in drafts])
        return [1 for _ in drafts]


@pytest.fixture
def store() -> WritesNoted:
    return WritesNoted()


@pytest.fixture
def recorder(store: WritesNoted) -> Iterator[Recorder]:
    declared = DeclaredSettings(complete=True)
    made = Recorder("w1", cast(HistoryStore, store), lambda _: declared, lambda: True, lambda: 0)
    made.start()
    yield made
    made.stop()


def create(recorder: Recorder, number: int) -> str:
    name, config = f"c-{number}", {"name": f"c-{number}"}
    target: Any = None
    recorder.config_changed(ConfigChange(CONFIG, name, None, config, number, 1, None, True))
    recorder.served(CreateConnector(name, config, target), ASKED)
    return name


def test_a_run_is_written_together_in_order(recorder: Recorder, store: WritesNoted) -> None:
    names = [create(recorder, number) for number in range(200)]
    recorder.await_written(10)
    assert [name for write in store.writes for name in write] == names
    assert len(store.writes) < 100


def test_a_reader_has_the_run_written_at_once(recorder: Recorder, store: WritesNoted) -> None:
    for number in range(20):
        create(recorder, number)
        recorder.await_written(10)
        assert store.writes[-1] == [f"c-{number}"]
