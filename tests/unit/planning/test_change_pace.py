"""The first changes are dealt out at once; a run of them together, and never late without bound."""

from __future__ import annotations

from spark_connect_rt.planning.change_pace import AT_ONCE, MOST_MS, QUIET_MS, WITHIN_MS, ChangePace


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


def test_a_long_run_of_changes_is_dealt_out_twice_a_second() -> None:
    pace, dealt = ChangePace(), 0
    for now_ms in range(0, 10_000, 5):
        dealt += _ask(pace, now_ms) <= now_ms
    assert AT_ONCE + 10_000 // MOST_MS - 3 <= dealt <= AT_ONCE + 10_000 // MOST_MS


def test_the_last_of_a_run_waits_a_moment_only() -> None:
    pace, last = ChangePace(), object()
    for now_ms in range(0, 100, 5):
        _ask(pace, now_ms)
    assert pace.due_ms(last, 100) == 100 + QUIET_MS
    assert pace.due_ms(last, 120) == 100 + QUIET_MS  # looked at again: nothing new


def test_what_another_rebalance_dealt_out_counts_no_more() -> None:
    pace = ChangePace()
    for now_ms in range(0, 100, 5):
        _ask(pace, now_ms)
    pace.nothing_waits()
    assert pace.due_ms(object(), 400) == 400 + QUIET_MS
