"""Values as people read them."""

from __future__ import annotations

from spark_connect_rt.console import words


def test_numbers_sizes_and_moments_of_any_form() -> None:
    assert [words.rate(it) for it in (0, 0.25, 12.44, 3120.4, None, "x")] == ["0", "0.25", "12.4", "3,120", "–", "–"]
    assert [words.number(it) for it in (None, 1204, 1.6, 2**65, "x")] == ["–", "1,204", "2", f"{2**65:,.0f}", "x"]
    assert [words.size(it) for it in (0, 1536, 2**31, 2**65, None)] == [
        "0 B",
        "1.5 KiB",
        "2.0 GiB",
        "33554432.0 TiB",
        "–",
    ]
    assert words.moment(1_795_420_800_000) == "2026-11-23 08:00:00"
    assert [words.moment(it) for it in (None, -1, 10**18, "x", float("nan"))] == ["–"] * 5
    assert words.iso(None) == ""


def test_states_of_tomorrow_are_shown_as_they_are() -> None:
    assert [words.tone(it) for it in ("FAILED", "RUNNING", "NEW", None)] == ["bad", "ok", "idle", "idle"]
    assert words.states_in_order({"RUNNING": 2, "NEW": 1, "FAILED": 1, "PAUSED": 0}) == [
        ("FAILED", 1),
        ("RUNNING", 2),
        ("NEW", 1),
    ]
    assert words.states_in_order(None) == []
    assert words.task_states([{"state": "RUNNING"}, {"state": "RUNNING"}, {}]) == {"RUNNING": 2, "None": 1}


def test_a_task_shows_its_error_as_the_list_does_without_the_package_of_its_class() -> None:
    trace = "Traceback (most recent call last):\n  File 'x', line 1\nour.errors.ConnectError: it <broke> at last\n"
    assert words.FILTERS["trace_line"](trace) == "it <broke> at last"


def test_an_error_is_not_reported_twice() -> None:
    assert words.said_in("task 0: boom", "task 0 FAILED: boom")
    assert not words.said_in("task 0: other", "task 0 FAILED: boom")
    assert words.one_line("\n\n a\nb") == "a"
    assert len(words.one_line("x" * 5000)) == 240
    assert words.cut("x" * 40_000).endswith("xx … (10,000 more characters)")
    assert words.cut(None) == ""


def test_tasks_that_failed_or_stand_still_come_first() -> None:
    tasks = [{"id": 0, "state": "RUNNING"}, {"id": 1, "state": "RUNNING", "stalled": "for 90 s"}]
    tasks += [{"id": 2, "state": "PAUSED"}, {"id": 3, "state": "FAILED"}]
    assert [task["id"] for task in words.wrong_first(tasks)] == [1, 3, 0, 2]
    assert words.wrong_first(None) == []
