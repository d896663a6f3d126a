"""Records that put() rejects are found by halving, in order, within bounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_connect_rt.api.records import SinkRecord
from spark_connect_rt.engine.executor.python_sink import BadRecordSearch, blames_records
from spark_connect_rt.errors import (
    BadConfigError,
    ConnectError,
    DataError,
    ExternalError,
    FencedError,
    RetriableError,
    TimedOutError,
)

FIRST = DataError("the whole batch")


def records(count: int) -> list[SinkRecord]:
    return [SinkRecord("t", 0, offset, offset) for offset in range(count)]


class Target:
    """Takes records that are not bad; all of a put or nothing."""

    def __init__(self, bad: Callable[[int], bool]) -> None:
        self.bad = bad
        self.taken: list[int] = []
        self.puts = 0

    def put(self, given: Sequence[SinkRecord]) -> None:
        self.puts += 1
        for record in given:
            if self.bad(record.offset):
                raise DataError(f"bad {record.offset}")
        self.taken += [record.offset for record in given]


def test_one_bad_record_in_ten_thousand_costs_few_puts() -> None:
    target = Target(lambda offset: offset == 7_777)
    search = BadRecordSearch(records(10_000), FIRST, 100)
    search.run(target.put)
    assert target.taken == [offset for offset in range(10_000) if offset != 7_777]
    assert [(refused_record.record.offset, str(refused_record.error)) for refused_record in search.rejected] == [
        (7_777, "bad 7777")
    ]
    assert target.puts <= 28
    assert search.in_a_row == 0


@given(st.lists(st.booleans(), min_size=1, max_size=70))
def test_exactly_the_bad_ones_are_refused_and_order_holds(bad: list[bool]) -> None:
    target = Target(lambda offset: bad[offset])
    search = BadRecordSearch(records(len(bad)), FIRST, len(bad))
    search.run(target.put)
    # A batch of one is not put again: its refusal is the batch's.
    good = [offset for offset, is_bad in enumerate(bad) if not is_bad] if len(bad) > 1 else []
    assert target.taken == good
    assert [refused_record.record.offset for refused_record in search.rejected] == [
        n for n in range(len(bad)) if n not in good
    ]


def test_a_target_that_takes_nothing_is_not_the_records_fault() -> None:
    target = Target(lambda offset: True)
    search = BadRecordSearch(records(10_000), FIRST, 100)
    with pytest.raises(ConnectError, match="101 single records in a row") as raised:
        search.run(target.put)
    assert (raised.value.code, str(raised.value.__cause__)) == ("CRT-1056", "bad 100")
    assert target.puts < 250


def test_refusals_are_counted_on_from_one_small_batch_to_the_next() -> None:
    search = BadRecordSearch(records(1), FIRST, 2)
    two = BadRecordSearch(records(1), FIRST, 2, search.in_a_row)
    assert (search.in_a_row, two.in_a_row, two.rejected[0].error) == (1, 2, FIRST)
    with pytest.raises(ConnectError, match="3 single records in a row"):
        BadRecordSearch(records(1), FIRST, 2, two.in_a_row)


def test_retried_search_continues_at_its_position() -> None:
    target, away = Target(lambda offset: offset == 3), [True]

    def put(given: Sequence[SinkRecord]) -> None:
        if given[0].offset == 4 and away:
            away.pop()
            raise RetriableError("the target is away")
        target.put(given)

    search = BadRecordSearch(records(8), FIRST, 100)
    with pytest.raises(RetriableError):
        search.run(put)
    search.run(put)
    assert target.taken == [0, 1, 2, 4, 5, 6, 7]
    assert [refused_record.record.offset for refused_record in search.rejected] == [3]


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "blames"),
    [
        (DataError("too long for the column"), True),
        (caused(DataError("not bytes"), ValueError("x")), True),
        (RetriableError("later"), False),
        (TimedOutError("later"), False),
        (ExternalError("given up after 10 tries"), False),
        (caused(DataError("given up"), RetriableError("away")), False),
        (caused(DataError("given up"), caused(OSError("x"), ExternalError("away"))), False),
        (ConnectError("a delivery failed"), False),
        (ConnectionError("refused"), False),
        (ValueError("no JSON: <html>502 Bad Gateway"), False),
        (KeyError("a fault of the sink"), False),
    ],
)
def test_only_a_data_error_that_stands_for_nothing_passing_blames_records(error: Exception, blames: bool) -> None:
    assert blames_records(error) is blames


@pytest.mark.parametrize("error", [BadConfigError({"a": ["b"]}), FencedError("newer"), OSError("away"), ValueError()])
def test_error_not_caused_by_a_record_is_raised_at_once(error: Exception) -> None:
    def put(given: Sequence[SinkRecord]) -> None:
        raise error

    with pytest.raises(type(error)):
        BadRecordSearch(records(8), FIRST, 100).run(put)
