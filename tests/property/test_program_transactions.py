"""Interleaved streams of one program: a transaction never ends over a record that no state of its stream covers."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from spark_connect_rt.api.records import SourceRecord
from spark_connect_rt.connectors.external_process.airbyte_source import parts_of
from spark_connect_rt.connectors.external_process.program_output import STATE, STREAM, Intake
from spark_connect_rt.connectors.external_process.stream_rows import RowSettings

STREAMS = ["a", "b", "c"]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("record"), st.sampled_from(STREAMS)),
        st.tuples(st.just("state"), st.sampled_from(STREAMS)),
        st.tuples(st.just("global"), st.just("")),
        st.tuples(st.just("take"), st.booleans()),
    ),
    max_size=60,
)


def stream_state(name: str, at: int) -> Any:
    return {"stream_descriptor": {"name": name}, "stream_state": {"at": at}}


class Run:
    """The output of a program, and the part of it that a transaction would commit."""

    def __init__(self) -> None:
        self.intake = Intake(STREAMS, {}, "${stream}", RowSettings(structs=False), lambda *_: None)
        self.said = dict.fromkeys(STREAMS, 0)
        self.states = dict.fromkeys(STREAMS, 0)
        self.open: list[SourceRecord] = []
        self.committed: dict[str, list[int]] = {name: [] for name in STREAMS}
        self.stored = dict.fromkeys(STREAMS, 0)

    def record(self, name: str) -> None:
        self.said[name] += 1
        self.intake.record(name, {"n": self.said[name]})

    def state(self, names: list[str], *, whole: bool) -> None:
        self.states |= {name: self.said[name] for name in names}
        states = [stream_state(name, self.said[name]) for name in names]
        tree = {"type": "GLOBAL", "global": {"stream_states": states}} if whole else {"stream": states[0]}
        self.intake.state(parts_of({"type": "STREAM", **tree}, STREAMS))

    def take(self, covered_only: bool) -> None:
        pieces = self.intake.take(covered_only=covered_only)
        for piece in pieces:
            self.open.append(piece)  # type: ignore[arg-type]
            if piece is self.intake.covered:
                self.commit()

    def commit(self) -> None:
        for piece in self.open:
            name = piece.source_partition[STREAM]
            if isinstance(piece, SourceRecord):
                self.committed[name].append(piece.value["n"])
            self.stored[name] = json.loads(piece.source_offset[STATE] or '{"at": 0}')["at"]
        self.open.clear()


@given(STEPS)
@settings(deadline=None, max_examples=30)
def test_committed_records_are_those_that_the_stored_states_cover(steps: list[tuple[str, Any]]) -> None:
    run = Run()
    for step, what in steps:
        match step:
            case "record":
                run.record(what)
            case "state":
                run.state([what], whole=False)
            case "global":
                run.state(STREAMS, whole=True)
            case "take":
                run.take(what)
        for name in STREAMS:
            assert run.committed[name] == list(range(1, run.stored[name] + 1)), (name, step)


@given(STEPS)
@settings(deadline=None, max_examples=30)
def test_where_everything_uncovered_is_held_back_each_new_state_is_committed(steps: list[tuple[str, Any]]) -> None:
    run = Run()
    for step, what in steps:
        if step == "record":
            run.record(what)
        elif step == "state":
            run.state([what], whole=False)
            run.take(covered_only=True)
            assert run.stored == run.states
            assert not run.open
