"""A chance made of names is the same each time, and spread over all of the range."""

from __future__ import annotations

from spark_connect_rt.base.backoff import chance_of


def test_names_that_differ_little_have_chances_that_are_spread() -> None:
    found = [chance_of("w:8083", f"orders-{number}", 1) for number in range(1_000)]
    assert found == [chance_of("w:8083", f"orders-{number}", 1) for number in range(1_000)]
    assert all(0 <= chance < 1 for chance in found)
    tenths = [sum(tenth <= 10 * chance < tenth + 1 for chance in found) for tenth in range(10)]
    assert min(tenths) > 50
    assert chance_of("a", "b") != chance_of("ab")
