"""What the tabs History and Offsets, a preview and a check show."""

from __future__ import annotations

import pytest

from spark_connect_rt.operations.history.view import (
    HOUR_MS,
    course,
    diff_lines,
    history_page,
    moves,
    suggested_ms,
    time_ms,
)
from spark_connect_rt.operations.preview.view import check_lines, preview_page
from tests.support.management_stand_in import content


def test_each_change_says_what_it_changed_and_what_can_be_done() -> None:
    page = history_page({"changes": content.changes(), "problem": "late"}, limit=5)
    logger, state, offsets, config, created = page.changes
    assert (page.problem, page.before) == ("late", 1)
    assert [(difference.name, difference.before, difference.after) for difference in config.differences] == [
        ("topic", "old", "lines"),
        ("batch.size", "", "10"),
    ]
    assert [(difference.name, difference.before, difference.after) for difference in offsets.differences] == [
        ('{"filename": "in.txt"}', '{"position": 1}', '{"position": 42}')
    ]
    assert (logger.differences[0].name, state.differences[0].after) == ("level", "PAUSED")
    assert [change.can_roll_back for change in page.changes] == [False, False, False, True, True]
    assert [change.can_undo for change in page.changes] == [False, False, True, False, False]
    assert len(created.differences) == 4
    assert page.compared == (1, 2)
    assert history_page({}, 5).compared == (None, None)


def test_the_last_page_has_no_next_one() -> None:
    assert history_page({"changes": content.changes()}, limit=6).before is None
    assert history_page({}, limit=6).changes == ()


def test_moves_and_diffs() -> None:
    found = moves({"offsets": [{"partition": {"p": 1}, "from": {"o": 2}, "to": None}, {"from": 1, "to": 1}]})
    assert [(move.partition, move.before, move.after, move.moves) for move in found] == [
        ('{"p": 1}', '{"o": 2}', "", True),
        ("", "1", "1", False),
    ]
    assert diff_lines({"diff": [{"setting": "a", "before": None, "after": "1"}]}, "diff")[0].after == "1"


def test_a_long_course_is_thinned_and_keeps_the_newest() -> None:
    points = [{"at_ms": n, "offsets": [{"partition": {}, "offset": {"o": n}}]} for n in range(1000)]
    found = course({"points": points}, most=100)
    assert len(found) == 100
    assert found[0].at_ms == 999


@pytest.mark.parametrize(
    ("written", "ms"),
    [
        ("2026-11-21T10:00", 1_795_255_200_000),
        ("2026-11-21T10:00:00+01:00", 1_795_251_600_000),
        ("yesterday", None),
        ("", None),
        ("0001-01-01T00:00", -62_135_596_800_000),
    ],
)
def test_times_are_utc_unless_they_say_otherwise(written: str, ms: int | None) -> None:
    assert time_ms(written) == ms


def test_a_stage_marks_what_it_changed() -> None:
    first = {"topic": "t", "key": None, "value": {"a": 1}, "headers": [], "value_schema": None}
    stages = [
        {"stage": "polled", "record": first},
        {"stage": "transforms.x", "record": first | {"topic": "u"}},
        {"stage": "converted", "record": first | {"topic": "u"}, "bytes": {"value": "eyJhIjoxfQ=="}},
        {"stage": "put", "record": None},
        {"stage": "put", "record": None, "error": "no"},
    ]
    [record] = preview_page({"records": [{"stages": stages}], "ended": "time", "seconds": 1}).records
    polled, moved, converted, dropped, failed = record
    assert not any(part.changed for part in polled.parts)
    assert [part.name for part in moved.parts if part.changed] == ["topic"]
    assert [(part.name, part.text) for part in converted.parts if part.changed] == [("value bytes", '{"a":1}')]
    assert (dropped.dropped, failed.dropped, failed.error) == (True, False, "no")
    assert {part.name: part.text for part in polled.parts}["key"] == "null"


def test_problems_of_a_check_come_first() -> None:
    lines = check_lines(
        {"lines": [{"ok": True, "what": "fine"}, {"level": "warning"}, {"level": "problem"}, {"ok": False}]}
    )
    assert [line.tone for line in lines] == ["bad", "bad", "warn", "ok"]


@pytest.mark.parametrize(
    ("now_ms", "points", "suggested"),
    [
        (10 * HOUR_MS, [], 9 * HOUR_MS),
        (10 * HOUR_MS, [2 * HOUR_MS], 9 * HOUR_MS),
        (10 * HOUR_MS, [10 * HOUR_MS - 59_400, 10 * HOUR_MS - 120_900], 10 * HOUR_MS - 120_000),
    ],
)
def test_the_time_to_go_back_to_is_within_the_history(now_ms: int, points: list[int], suggested: int) -> None:
    assert suggested_ms(now_ms, {"points": [{"at_ms": at} for at in points]}) == suggested
