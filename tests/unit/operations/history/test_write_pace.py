"""When the history is written."""

from __future__ import annotations

from spark_connect_rt.operations.history.recorder import APART_S, AT_ONCE, WITHIN_S, WritePace


def test_single_changes_are_written_at_once() -> None:
    pace, now_s = WritePace(), 100.0
    for _ in range(3 * AT_ONCE):
        assert pace.due_s(now_s) == now_s
        pace.begun(now_s)
        now_s += 1.01 * WITHIN_S / AT_ONCE


def test_a_run_is_written_together_until_it_is_over() -> None:
    pace, now_s = WritePace(), 100.0
    begun_s = []
    while now_s < 102.0:  # a change each 5 ms
        if pace.due_s(now_s) <= now_s:
            pace.begun(now_s)
            begun_s.append(now_s)
        now_s += 0.005
    assert AT_ONCE + 1.8 / APART_S <= len(begun_s) <= AT_ONCE + 2.0 / APART_S
    assert pace.due_s(begun_s[-1] + WITHIN_S) == begun_s[-1] + WITHIN_S
