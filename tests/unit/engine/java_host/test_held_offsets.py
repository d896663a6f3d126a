"""Offsets go out behind the batch that follows theirs, or when nothing follows; never before their own batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_connect_rt.engine.executor.source_task import Durable
from spark_connect_rt.engine.java_host.source_task import HOLD_S, LONG_HOLD_S, HeldOffsets
from spark_connect_rt.records.pipeline.source_pipeline import ConvertedBatch
from spark_connect_rt.records.pipeline.transaction_boundaries import End


class Output:
    """Keeps (rows, offset) of what is sent."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, int | None]] = []
        self.rows_added = 0
        self.now_s = 0.0
        self.alive_at_s = 0.0

    def send(self, converted: ConvertedBatch) -> None:
        offsets = [offset["n"] for _, offset in converted.source_offsets]
        self.sent.append((converted.batch.num_rows, offsets[0] if offsets else None))

    def end(self, end: End) -> None:
        raise NotImplementedError

    def take_durable(self) -> Sequence[Durable]:
        raise NotImplementedError

    def add_row(self) -> None:
        self.rows_added += 1


def held(output: Output) -> HeldOffsets:
    return HeldOffsets(output, output.add_row, lambda: output.alive_at_s, lambda: output.now_s)


def batch(rows: int, offset: int | None) -> ConvertedBatch:
    made = pa.RecordBatch.from_arrays([pa.array(range(rows))], names=["value"])
    offsets: Any = () if offset is None else (({"p": 1}, {"n": offset}),)
    return ConvertedBatch(made, offsets, rows, 0, ("t",))


def test_offsets_go_out_with_the_next_batch() -> None:
    output = Output()
    held_offsets = held(output)
    for offset in (1, None, 2):
        held_offsets.send(batch(5, offset))
    assert output.sent == [(5, None), (5, None), (5, 1)]


def test_offsets_go_out_alone_after_a_poll_that_brought_nothing() -> None:
    output = Output()
    held_offsets = held(output)
    assert held_offsets.wait_s() is None
    held_offsets.send(batch(5, 1))
    held_offsets.poll_brought_nothing(failed=False)
    assert held_offsets.wait_s() == pytest.approx(HOLD_S)
    output.now_s = HOLD_S / 2
    held_offsets.release(at_once=False)
    assert output.sent == [(5, None)]
    output.now_s = HOLD_S
    assert held_offsets.wait_s() == 0
    held_offsets.release(at_once=False)
    assert (output.sent, output.rows_added) == ([(5, None), (0, 1)], 1)
    assert held_offsets.wait_s() is None
    held_offsets.release()
    assert len(output.sent) == 2


def test_silence_of_a_jvm_that_may_be_dead_releases_nothing() -> None:
    output = Output()
    held_offsets = held(output)
    held_offsets.send(batch(5, 1))
    output.now_s = 10 * LONG_HOLD_S
    output.alive_at_s = LONG_HOLD_S - 1  # its last heartbeat
    held_offsets.release(at_once=False)
    assert output.sent == [(5, None)]
    assert held_offsets.wait_s() > 0  # type: ignore[operator]


def test_offsets_go_out_after_a_minute_in_which_no_poll_returns_and_the_jvm_lives() -> None:
    output = Output()
    held_offsets = held(output)
    held_offsets.send(batch(5, 1))
    output.alive_at_s = output.now_s = LONG_HOLD_S
    held_offsets.release(at_once=False)
    assert output.sent == [(5, None), (0, 1)]


def test_a_poll_that_brought_nothing_before_the_batch_releases_nothing() -> None:
    output = Output()
    held_offsets = held(output)
    held_offsets.send(batch(5, 1))
    held_offsets.poll_brought_nothing(failed=False)
    held_offsets.send(batch(5, 2))
    output.now_s = 2 * HOLD_S
    held_offsets.release(at_once=False)
    assert output.sent == [(5, None), (5, 1)]


def test_offsets_are_held_for_a_minute_after_a_poll_that_failed() -> None:
    output = Output()
    held_offsets = held(output)
    held_offsets.poll_brought_nothing(failed=True)
    assert held_offsets.wait_s() is None
    held_offsets.send(batch(5, 1))
    held_offsets.poll_brought_nothing(failed=True)
    held_offsets.poll_brought_nothing(failed=False)
    output.now_s = LONG_HOLD_S - 1
    held_offsets.release(at_once=False)
    assert (output.sent, held_offsets.wait_s()) == ([(5, None)], 1.0)
    held_offsets.send(batch(5, 2))
    held_offsets.poll_brought_nothing(failed=False)
    assert (output.sent[1:], held_offsets.wait_s()) == ([(5, 1)], HOLD_S)
    held_offsets.poll_brought_nothing(failed=True)
    output.now_s += LONG_HOLD_S
    held_offsets.release(at_once=False)
    assert output.sent[2:] == [(0, 2)]


@given(st.lists(st.sampled_from(["send", "errants", "quiet", "wait", "release"]), max_size=30))
def test_never_before_their_own_batch_and_all_of_them_in_the_end(steps: list[str]) -> None:
    output = Output()
    held_offsets = held(output)
    given = 0
    for step in steps:
        match step:
            case "send":
                held_offsets.send(batch(1, given := given + 1))
            case "errants":
                held_offsets.send(batch(1, None))
            case "quiet":
                held_offsets.poll_brought_nothing(failed=False)
            case "wait":
                output.now_s += HOLD_S
                held_offsets.release(at_once=False)
            case _:
                held_offsets.release()
    held_offsets.release()
    out = [offset for _, offset in output.sent if offset is not None]
    assert out == list(range(1, given + 1))
    batches = 0
    sends = iter(["send" if step == "send" else "other" for step in steps if step in ("send", "errants")])
    for rows, offset in output.sent:
        assert offset is None or offset <= batches
        batches += rows > 0 and next(sends) == "send"
