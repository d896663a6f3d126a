"""The first changes are dealt out at once; a run of them together, and never late without bound."""

from __future__ import annotations

from itertools import pairwise

from spark_connect_rt.group.rebalance_plan import (
    AT_ONCE,
    LONGEST_MS,
    MOST_MS,
    QUIET_MOST_MS,
    QUIET_MS,
    WITHIN_MS,
    ChangePace,
)


def _ask(pace: ChangePace, now_ms: int) -> int:
    """A change comes: return when it is due, and deal it out if it is now."""
    due_ms = pace.due_ms(object(), now_ms)
    if due_ms <= now_ms:
        pace.dealt(now_ms)
    return due_ms


def test_a_few_changes_are_dealt_out_at_once_however_close() -> None:
    pace = ChangePace()
    assert [_ask(pace, number) for number in range(AT_ONCE)] == list(range(AT_ONCE))


def test_changes_that_come_now_and_then_never_wait() -> None:
    pace = ChangePace()
    times = [number * (WITHIN_MS // AT_ONCE + 1) for number in range(20)]
    assert [_ask(pace, now_ms) for now_ms in times] == times


def test_in_a_long_run_of_changes_more_and_more_are_dealt_out_together() -> None:
    pace = ChangePace()
    dealt = [now_ms for now_ms in range(0, 30_000, 5) if _ask(pace, now_ms) <= now_ms]
    waits = [later - earlier for earlier, later in pairwise(dealt[AT_ONCE - 1 :])]
    assert waits[0] <= MOST_MS + 5
    assert waits == sorted(waits)
    assert max(waits) <= LONGEST_MS + 5
    assert len(dealt) <= AT_ONCE + 20


def test_slow_changes_in_a_row_are_dealt_out_together_and_a_pause_ends_the_run() -> None:
    pace = ChangePace()
    dealt = [now_ms for now_ms in range(0, 10_000, 60) if _ask(pace, now_ms) <= now_ms]
    assert len(dealt) <= AT_ONCE + 10  # not one rebalance each 60 ms
    last = object()
    due_ms = pace.due_ms(last, 10_000)
    assert due_ms <= 10_000 + QUIET_MOST_MS
    pace.dealt(due_ms)
    assert pace.due_ms(object(), 60_000) == 60_000


def test_the_last_of_a_run_waits_a_moment_only() -> None:
    pace, last = ChangePace(), object()
    for now_ms in range(0, 100, 5):
        _ask(pace, now_ms)
    assert pace.due_ms(last, 100) == 100 + QUIET_MS
    assert pace.due_ms(last, 120) == 100 + QUIET_MS  # looked at again: nothing new


def test_rebalance_that_dealt_out_the_change_resets_the_pace() -> None:
    pace = ChangePace()
    for now_ms in range(0, 100, 5):
        _ask(pace, now_ms)
    pace.nothing_waits()
    assert pace.due_ms(object(), 400) == 400 + QUIET_MS
