"""Whether two copies are equal, and how late one is."""

from __future__ import annotations

import pytest

from spark_connect_rt.app.quickstart.cdc.lake import Row
from spark_connect_rt.app.quickstart.cdc.order_changes import COLUMNS
from spark_connect_rt.app.quickstart.cdc.progress import (
    Difference,
    Freshness,
    behind_s,
    differences,
    last_change,
    newest,
)


def row(key: int, change: int = 0, item: str = "tea") -> Row:
    return tuple({"id": key, "change": change, "item": item}.get(name, "") for name in COLUMNS)


def test_equal_rows_have_no_differences_in_any_order() -> None:
    assert differences([row(1), row(2)], [row(2), row(1)]) == []


@pytest.mark.parametrize(
    ("table", "found"),
    [
        ([row(1)], Difference(2, row(2), None)),
        ([row(1), row(2), row(3)], Difference(3, None, row(3))),
        ([row(1), row(2, item="bread")], Difference(2, row(2), row(2, item="bread"))),
        ([row(1), row(2), row(2)], Difference(2, row(2), row(2))),
        ([row(1), row(2), row(2, item="bread")], Difference(2, row(2), row(2, item="bread"))),
    ],
    ids=["missing", "superfluous", "other value", "twice", "twice with another value"],
)
def test_a_row_that_is_not_the_same_is_found(table: list[Row], found: Difference) -> None:
    assert differences([row(1), row(2)], table) == [found]


def test_the_last_change_and_the_newest_rows() -> None:
    rows = [row(1, 4), row(2, 9), row(3, 9), row(4)]
    assert last_change(rows) == 9
    assert last_change([]) == 0
    assert newest(rows, 3) == [row(3, 9), row(2, 9), row(1, 4)]


def test_each_transaction_is_late_once_and_those_of_earlier_runs_do_not_count() -> None:
    committed_s = {11: 1.0, 12: 2.0, 13: 3.0, 14: 4.0}
    freshness = Freshness()
    freshness.see(10, 0.5, committed_s)
    freshness.see(12, 2.5, committed_s)
    freshness.see(12, 9.0, committed_s)
    freshness.see(13, 6.0, committed_s)
    assert freshness.late_s == [1.5, 0.5, 3.0]
    assert freshness.quantile_s(0.5) == 1.5
    assert freshness.quantile_s(0.99) == 3.0
    assert Freshness().quantile_s(0.5) == 0.0


def test_a_table_is_as_late_as_its_oldest_missing_transaction() -> None:
    committed_s = {1: 10.0, 2: 11.0, 3: 12.0}
    assert behind_s(15.0, 1, committed_s) == 4.0
    assert behind_s(15.0, 3, committed_s) == 0.0
    assert behind_s(15.0, 0, {}) == 0.0
