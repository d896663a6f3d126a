"""When an upsert is tried as a plain COPY."""

from __future__ import annotations

from spark_connect_rt.connectors.sql_copy import StraightTries


def tried(tries: StraightTries, lots: int) -> list[int]:
    """Return which of the next lots are tried, while all of them fail."""
    found = []
    for lot in range(lots):
        if tries.due():
            found.append(lot)
            tries.failed()
    return found


def test_failures_are_further_and_further_apart_but_never_more_than_64_lots() -> None:
    assert tried(StraightTries(), 300) == [0, 2, 5, 10, 19, 36, 69, 134, 199, 264]


def test_what_works_is_tried_each_time_again() -> None:
    tries = StraightTries()
    assert tried(tries, 4) == [0, 2]
    while not tries.due():
        pass
    tries.worked()
    assert [tries.due() for _ in range(3)] == [True, True, True]
    assert tried(tries, 3) == [0, 2]
