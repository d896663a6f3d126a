"""The proof of CDC finds states that the source never had."""

from __future__ import annotations

import random

import pytest

from tests.support.change_log import Change, PrefixCheck, RandomChanges, Row


def by_parity(key: int) -> int:
    return key % 2


def row(number: int) -> Row:
    return (number,)


CHANGES = [
    Change(1, 1, row(0)),
    Change(1, 2, row(1)),
    Change(2, 1, row(2)),
    Change(2, 2, None),
    Change(3, 3, row(3)),
    Change(3, 3, None),
    Change(4, 1, None),
]


def check(*states: dict[int, Row]) -> PrefixCheck:
    made = PrefixCheck(CHANGES, by_parity)
    for state in states:
        made.see(state)
    return made


def test_prefixes_of_each_partition_are_states_of_the_source() -> None:
    made = check({}, {1: row(0)}, {1: row(2), 2: row(1)}, {1: row(2)}, {1: row(2), 3: row(3)}, {})
    assert made.is_complete()
    assert made.states == 6
    assert made.visible_transactions() == 4


def test_partitions_may_be_at_different_transactions() -> None:
    made = check({1: row(2), 2: row(1)})
    assert made.visible_transactions() == 1
    assert not made.is_complete()
    assert made.at_boundaries == 1


def test_a_transaction_that_is_there_in_part_is_not_at_a_boundary() -> None:
    assert check({1: row(2), 3: row(3)}).at_boundaries == 0


@pytest.mark.parametrize(
    "states",
    [
        [{1: row(7)}],
        [{5: row(0)}],
        [{3: row(3)}],
        [{1: row(2)}, {1: row(0)}],
        [{1: row(2), 2: row(1)}, {}, {2: row(1)}],
    ],
    ids=["unknown value", "unknown key", "later change without an earlier", "back in time", "deleted row is back"],
)
def test_a_state_that_the_source_never_had_is_found(states: list[dict[int, Row]]) -> None:
    with pytest.raises(AssertionError, match="not the state after any"):
        check(*states)


def test_random_changes_and_their_log_say_the_same() -> None:
    made = RandomChanges(random.Random(7))
    for number in range(300):
        made.has_extra = number > 150
        made.transaction(20)
    made_of_log: dict[int, Row] = {}
    for change in made.log:
        if change.row is None:
            del made_of_log[change.key]
        else:
            made_of_log[change.key] = change.row
    assert made_of_log == made.rows
    kinds = {change.row is None for change in made.log}
    assert kinds == {True, False}
    checked = PrefixCheck(made.log, lambda key: key % 3)
    checked.see({})
    checked.see(made.rows)
    assert checked.is_complete()
