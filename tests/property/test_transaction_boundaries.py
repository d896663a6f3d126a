"""For any polls and requests: pieces keep every record, in order, and end exactly where they must."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_connect_rt.api.records import SourceRecord
from spark_connect_rt.config.worker_settings import Boundary
from spark_connect_rt.errors import ConnectError
from spark_connect_rt.records.pipeline.transaction_boundaries import End, TransactionBoundaries

ENDS = st.sampled_from([End.NONE, End.NONE, End.COMMIT, End.ABORT])


def records(count: int) -> list[SourceRecord]:
    return [SourceRecord({"p": 1}, {"o": number}, "t", value="same") for number in range(count)]


@given(st.lists(st.tuples(st.lists(ENDS, max_size=6), ENDS), max_size=5))
def test_a_connectors_own_ends_are_exactly_where_it_asked(polls: list[tuple[list[End], End]]) -> None:
    boundaries = TransactionBoundaries(Boundary.CONNECTOR, 0, 0)
    requests = boundaries.requests
    assert requests is not None
    ask = {End.COMMIT: requests.commit_transaction, End.ABORT: requests.abort_transaction, End.NONE: lambda *_: None}
    for wanted, behind in polls:
        polled = records(len(wanted))
        for record, end in zip(polled, wanted, strict=True):
            ask[end](record)
        ask[behind]()
        pieces = boundaries.cut(polled, 0)
        assert [record for piece, _ in pieces for record in piece] == polled
        ends = {id(piece[-1]): end for piece, end in pieces[:-1]}
        assert ends == {id(r): end for r, end in zip(polled, wanted, strict=True) if end is not End.NONE}
        assert pieces[-1][1] is behind


@given(st.lists(st.integers(0, 50), max_size=40), st.integers(0, 100))
def test_an_interval_ends_at_the_first_poll_that_is_late_enough(steps: list[int], interval_ms: int) -> None:
    boundaries = TransactionBoundaries(Boundary.INTERVAL, interval_ms, 0)
    now_ms = last_ms = 0
    for step in steps:
        now_ms += step
        ((_, end),) = boundaries.cut(records(1), now_ms)
        assert (end is End.COMMIT) == (now_ms >= last_ms + interval_ms)
        last_ms = now_ms if end is End.COMMIT else last_ms


def test_every_poll_ends_one_and_a_stop_ends_what_is_open_unless_its_the_connectors() -> None:
    assert TransactionBoundaries(Boundary.POLL, 0, 0).cut([], 0) == [([], End.COMMIT)]
    assert TransactionBoundaries(Boundary.INTERVAL, 9, 0).final() is End.COMMIT
    own = TransactionBoundaries(Boundary.CONNECTOR, 0, 0)
    assert own.final() is End.NONE
    assert own.requests is not None
    own.requests.commit_transaction()
    assert own.final() is End.COMMIT


def test_both_ends_at_one_place_fail_the_task() -> None:
    own = TransactionBoundaries(Boundary.CONNECTOR, 0, 0)
    assert own.requests is not None
    (record,) = records(1)
    own.requests.commit_transaction(record)
    own.requests.abort_transaction(record)
    with pytest.raises(ConnectError, match="both commit and abort"):
        own.cut([record], 0)
