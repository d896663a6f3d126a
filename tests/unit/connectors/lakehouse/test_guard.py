"""Where a partition is read from, whether a commit may be made, and what a table remembers afterwards."""

from __future__ import annotations

import pytest

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.connectors.lakehouse.guard import (
    GROUP_LAG_MS,
    KEPT_COMMITS,
    KEPT_INTERVALS,
    LONGEST_WAIT_MS,
    Check,
    CommitVerdict,
    ResumeReason,
    check,
    commit_wait_ms,
    offset_text,
    offsets_of_properties,
    other_writers,
    parse_offset,
    property_name,
    race_wait_ms,
    resume,
    stored_after,
    truncate_refusal,
)
from spark_connect_rt.connectors.lakehouse.table_port import StoredOffset, WrittenRange
from spark_connect_rt.errors import ExternalError

NOW = 5
PLACE = TopicPartition("orders", 3)
STORED = StoredOffset(30, "T1", ("c1", "c2"), ((0, 0, 1), (10, 13, 2), (30, 30, 3)))


@pytest.mark.parametrize(
    ("stored", "position", "topic_id", "start", "reason"),
    [
        (None, 5, "T1", 5, ResumeReason.FIRST),
        (STORED, 30, "T1", 30, ResumeReason.IN_STEP),
        (STORED, 10, "T1", 30, ResumeReason.TABLE_AHEAD),
        (STORED, 0, "T1", 30, ResumeReason.TABLE_AHEAD),
        (STORED, 10, None, 30, ResumeReason.TABLE_AHEAD),
        (STORED, 12, "T1", 30, ResumeReason.TABLE_AHEAD),
        (STORED, -1, "T1", -1, ResumeReason.GROUP_REWOUND),
        (StoredOffset(30, group_at=((-1, 4, 1), (30, 30, 2))), -1, None, 30, ResumeReason.TABLE_AHEAD),
        (STORED, 7, "T1", 7, ResumeReason.GROUP_REWOUND),
        (STORED, 31, "T1", 31, ResumeReason.GROUP_AHEAD),
        (STORED, 0, "T2", 0, ResumeReason.OTHER_TOPIC),
        (STORED, 30, "T2", 30, ResumeReason.OTHER_TOPIC),
    ],
)
def test_start_of_a_partition(
    stored: StoredOffset | None, position: int, topic_id: str | None, start: int, reason: ResumeReason
) -> None:
    decision = resume(stored, position, topic_id)
    assert (decision.start, decision.reason, decision.expected) == (start, reason, stored)


def test_rolled_back_table_is_refilled_only_on_request() -> None:
    assert resume(STORED, 30, "T1").start == 30
    decision = resume(STORED, 30, "T1", 10)
    assert (decision.start, decision.reason) == (10, ResumeReason.ROLLED_BACK)


def test_commit_is_written_where_the_stored_offset_is_the_expected_one() -> None:
    assert check({PLACE: STORED}, {PLACE: WrittenRange(STORED, 30, 40)}, "c3") == Check(CommitVerdict.WRITE)
    assert check({}, {PLACE: WrittenRange(None, 0, 40)}, "c3") == Check(CommitVerdict.WRITE)
    rewound = WrittenRange(STORED, 7, 9)
    assert check({PLACE: STORED}, {PLACE: rewound}, "c3") == Check(CommitVerdict.WRITE)


@pytest.mark.parametrize(
    "now",
    [
        StoredOffset(40, "T1", ("c1", "c2", "c3")),
        StoredOffset(30, "T1", ("c2", "c3")),  # the same number again, after a reset
        StoredOffset(30, "T2", ("c1", "c2")),
        None,
    ],
)
def test_commit_is_fenced_by_any_other_stored_offset(now: StoredOffset | None) -> None:
    other = TopicPartition("orders", 4)
    stored = {} if now is None else {PLACE: now}
    ranges = {PLACE: WrittenRange(STORED, 30, 40, "T1"), other: WrittenRange(None, 0, 1)}
    assert check(stored, ranges, "c9") == Check(CommitVerdict.FENCED, frozenset({PLACE}))


def test_commit_with_a_lost_answer_is_found_behind_later_commits() -> None:
    part = WrittenRange(STORED, 30, 40, "T1")
    landed = stored_after(part, "mine", NOW)
    later = stored_after(WrittenRange(landed, 40, 50, "T1"), "next", NOW)
    for stored in (landed, later):
        assert check({PLACE: stored}, {PLACE: part}, "mine") == Check(CommitVerdict.LANDED)


def test_stored_offset_grows_by_the_range() -> None:
    after = stored_after(WrittenRange(STORED, 30, 45, "T1", 33), "c3", NOW)
    assert after == StoredOffset(45, "T1", ("c1", "c2", "c3"), ((0, 0, 1), (10, 13, 2), (30, 33, NOW), (45, 45, NOW)))
    assert stored_after(WrittenRange(None, -1, 9, None, 4), "c0", NOW) == StoredOffset(
        9, None, ("c0",), ((-1, 4, NOW), (9, 9, NOW))
    )


def test_group_may_stand_anywhere_before_the_first_row_of_a_commit() -> None:
    # Between two commits the group follows records without rows, which the table is not informed of.
    after = stored_after(WrittenRange(STORED, 30, 520, "T1", 510), "c3", NOW)
    for position in (30, 450, 510):
        assert resume(after, position, "T1").reason is ResumeReason.TABLE_AHEAD
    for position in (29, 511, 519):
        assert resume(after, position, "T1").reason is ResumeReason.GROUP_REWOUND


def test_offsets_of_the_group_are_forgotten_once_it_must_have_moved_on() -> None:
    after = stored_after(WrittenRange(STORED, 30, 45, "T1"), "c3", GROUP_LAG_MS + 2)
    assert resume(after, 0, "T1").reason is ResumeReason.GROUP_REWOUND
    assert resume(after, 13, "T1").reason is ResumeReason.TABLE_AHEAD
    much_later = stored_after(WrittenRange(after, 45, 50, "T1"), "c4", 10 * GROUP_LAG_MS)
    assert [interval[:2] for interval in much_later.group_at] == [(45, 45), (50, 50)]


def test_gap_keeps_where_the_group_was_and_a_reset_forgets_it() -> None:
    gap = stored_after(WrittenRange(STORED, 40, 45, "T1"), "c3", NOW)
    assert gap.group_at == (*STORED.group_at, (40, 40, NOW), (45, 45, NOW))
    rewound = stored_after(WrittenRange(STORED, 7, 9, "T1"), "c3", NOW)
    assert rewound.group_at == ((7, 7, NOW), (9, 9, NOW))
    other = stored_after(WrittenRange(STORED, 30, 31, "T2"), "c3", NOW)
    assert (other.group_at, other.topic_id) == (((30, 30, NOW), (31, 31, NOW)), "T2")


def test_unknown_topic_id_does_not_erase_a_known_one() -> None:
    after = stored_after(WrittenRange(STORED, 30, 45, None), "c3", NOW)
    assert (after.topic_id, after.group_at[-2:]) == ("T1", ((30, 30, NOW), (45, 45, NOW)))


def test_stored_offset_stays_small() -> None:
    stored = None
    for number in range(100):
        stored = stored_after(WrittenRange(stored, number, number + 1), f"commit{number}", NOW)
    assert stored is not None
    assert (len(stored.commits), len(stored.group_at)) == (KEPT_COMMITS, KEPT_INTERVALS)
    assert stored.group_at[-1] == (100, 100, NOW)
    assert stored.group_at[0] == (0, 93, NOW)  # the oldest are one interval, so none of them is forgotten
    assert stored.commits[-1] == "commit99"


@pytest.mark.parametrize(
    ("topics", "partitions", "stored", "is_routed", "reason"),
    [
        (["t"], 1, [], False, None),
        (["t"], 1, [TopicPartition("t", 0)], False, None),
        (["t"], 2, [], False, "has 2 partitions"),
        (["t"], None, [], False, "is not known"),
        (["t", "u"], 1, [], False, "several topics"),
        ([], 1, [], False, "several topics"),
        (["t"], 1, [TopicPartition("t", 0), TopicPartition("old", 3)], False, "rows of old-3"),
        (["t"], 1, [], True, "route-field"),
    ],
)
def test_truncate_is_refused_where_it_has_no_order(
    topics: list[str], partitions: int | None, stored: list[TopicPartition], is_routed: bool, reason: str | None
) -> None:
    found = truncate_refusal(TopicPartition("t", 0), topics, partitions, stored, is_routed=is_routed)
    assert found is None if reason is None else reason in (found or "")


def test_tasks_of_one_table_commit_at_different_times() -> None:
    assert commit_wait_ms(1000, 1, True, 0.9) == 1000
    assert [commit_wait_ms(1000, 2, True, chance) for chance in (0, 0.5, 0.9999)] == [1000, 500, 1]
    assert [commit_wait_ms(1000, 8, False, chance) for chance in (0, 0.5, 0.9999)] == [1000, 875, 750]
    assert commit_wait_ms(1, 8, True, 0.9999) == 1


def test_waits_grow_with_losses_up_to_a_limit() -> None:
    assert race_wait_ms(0, won_last=False, chance=0.9) == 0
    assert race_wait_ms(0, won_last=True, chance=0.9) > 0
    waits = [race_wait_ms(losses, won_last=False, chance=0.0) for losses in range(1, 40)]
    assert waits == sorted(waits)
    assert waits[0] == 50
    assert race_wait_ms(39, won_last=False, chance=0.999) <= LONGEST_WAIT_MS


@pytest.mark.parametrize("connector", ["sink", "sink.two", "a:b@c", "3.x"])
@pytest.mark.parametrize("branch", [None, "audit"])
@pytest.mark.parametrize("stored", [STORED, StoredOffset(0), StoredOffset(5, None, ("x",), ((-1, 5, 9),))])
def test_stored_offsets_pass_through_properties(connector: str, branch: str | None, stored: StoredOffset) -> None:
    place = TopicPartition("a.b-1", 10)
    properties = {property_name(connector, branch, place): offset_text(stored), "write.format.default": "parquet"}
    assert offsets_of_properties(properties, connector, branch) == {place: stored}
    assert not offsets_of_properties(properties, connector + "x", branch)
    assert not offsets_of_properties(properties, connector, "other")
    assert other_writers(properties, connector, branch) == {}
    assert other_writers(properties, "someone", branch) == {connector: {"a.b-1"}}
    assert other_writers(properties, "someone", "other") == {}


@pytest.mark.parametrize("text", ["", "12x", "[]", '{"end": "x"}', '{"end": 1, "group": 3}'])
def test_foreign_text_in_a_property_is_named(text: str) -> None:
    with pytest.raises(ExternalError, match="is not a stored offset"):
        parse_offset(text, "connectrt.offset.x")
