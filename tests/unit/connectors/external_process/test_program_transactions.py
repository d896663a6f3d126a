"""Transactions of a task whose program interleaves streams: what is committed, dropped and read again."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from spark_connect_rt.api.records import SourceRecord
from spark_connect_rt.api.task import NoPluginMetrics
from spark_connect_rt.config.worker_settings import Boundary
from spark_connect_rt.connectors.external_process import program_task
from spark_connect_rt.connectors.external_process.airbyte_source import AirbyteProgram, AirbyteSourceTask
from spark_connect_rt.connectors.external_process.child_process import ChildFailedError
from spark_connect_rt.errors import ExternalError
from spark_connect_rt.records.pipeline.transaction_boundaries import End, TransactionBoundaries

MORE, ENDS, FAILS = "more", "ends", "fails"
Poll = tuple[Sequence[dict[str, Any]], str]


def record(stream: str, number: int) -> dict[str, Any]:
    return {"type": "RECORD", "record": {"stream": stream, "data": {"n": number}}}


def state(stream: str, at: int) -> dict[str, Any]:
    named = {"stream_descriptor": {"name": stream}, "stream_state": {"at": at}}
    return {"type": "STATE", "state": {"type": "STREAM", "stream": named}}


class Scripted(AirbyteSourceTask):
    """A task whose program says what a test wrote, poll by poll."""

    polls: list[Poll] = []

    def _begin(self) -> bool:
        self._child = SimpleNamespace(stop=lambda: None, name="scripted")  # type: ignore[assignment]
        return True

    def _listen(self) -> bool:
        messages, end = self.polls.pop(0)
        for message in messages:
            line = json.dumps(message).encode()
            self._held_bytes += len(line)
            self._on_line(line)
        if end == FAILS:
            raise ChildFailedError("killed")
        return end == ENDS and self._end_step()


def committed(monkeypatch: pytest.MonkeyPatch, *polls: Poll) -> Counter[tuple[str, int]]:
    """Return how often each record is committed."""
    monkeypatch.setattr(AirbyteProgram, "install", lambda _: None)
    boundaries = TransactionBoundaries(Boundary.CONNECTOR, 0, 0)
    task = Scripted()
    task.polls = list(polls)
    task.context = SimpleNamespace(  # type: ignore[assignment]
        offset_reader=SimpleNamespace(offsets=lambda partitions: [None] * len(partitions)),
        metrics=NoPluginMetrics(),
        previewed=False,
        transaction_context=boundaries.requests,
    )
    task.start({"topic": "t", "airbyte.executable": "x", "airbyte.value": "tree", "airbyte.task.streams": '["a", "b"]'})
    done, pending = Counter[tuple[str, int]](), list[tuple[str, int]]()
    while task.polls:
        for pieces, end in boundaries.cut(task.poll() or (), 0):
            pending += [
                (piece.source_partition["stream"], piece.value["n"])
                for piece in pieces
                if isinstance(piece, SourceRecord)
            ]
            assert all(piece.timestamp_ms for piece in pieces if isinstance(piece, SourceRecord))
            if end is not End.NONE:
                done.update(pending if end is End.COMMIT else [])
                pending = []
    task.stop()
    return done


EACH_ONCE = Counter({("a", 1): 1, ("a", 2): 1, ("b", 1): 1, ("b", 2): 1})
INTERLEAVED = [record("b", 1), record("b", 2), record("a", 1), state("a", 1)]
AGAIN = [record("a", 2), state("a", 2), record("b", 1), record("b", 2), state("b", 2)]  # from the states so far


def test_a_run_that_fails_drops_what_no_state_of_its_stream_covers(monkeypatch: pytest.MonkeyPatch) -> None:
    assert committed(monkeypatch, (INTERLEAVED, MORE), ([], FAILS), (AGAIN, MORE), ([], ENDS)) == EACH_ONCE
    assert committed(monkeypatch, (INTERLEAVED, FAILS), (AGAIN, ENDS)) == EACH_ONCE


def test_held_back_records_are_committed_with_their_state_or_the_end_of_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    covered = [record("a", 2), state("b", 2)]
    assert committed(monkeypatch, (INTERLEAVED, MORE), (covered, MORE), ([], ENDS)) == EACH_ONCE
    assert committed(monkeypatch, (INTERLEAVED, MORE), ([record("a", 2)], ENDS)) == EACH_ONCE


@pytest.mark.parametrize("end", [ENDS, FAILS])
def test_more_than_can_be_held_back_waits_for_its_state_in_the_transaction(
    monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    monkeypatch.setattr(program_task, "HELD_BYTES", 1)
    first = (INTERLEAVED[:2], MORE)  # of b, in the transaction
    rest = (INTERLEAVED[2:], MORE)  # of a, with its state: no place to commit
    assert committed(monkeypatch, first, rest, ([record("a", 2), state("b", 2), state("a", 2)], MORE)) == EACH_ONCE
    if end == ENDS:
        assert committed(monkeypatch, first, rest, ([record("a", 2)], ENDS)) == EACH_ONCE
    else:
        with pytest.raises(ExternalError, match="Restart the task"):
            committed(monkeypatch, first, rest, ([], FAILS))
