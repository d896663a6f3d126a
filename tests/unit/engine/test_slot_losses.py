"""What losses say about a task: apart at the second, guilty only alone and after minutes."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.engine.slot_losses import (
    Judgement,
    LossLimits,
    LossRecord,
    is_cleared,
    judge_loss,
    named,
    opening_delay_ms,
    verdict_text,
)

LIMITS = LossLimits()
A, B = ConnectorTaskId("a", 0), ConnectorTaskId("b", 0)


def losses(*at_ms: float, hosted_ms: float = 1_000, neighbours: tuple[ConnectorTaskId, ...] = ()) -> list[Judgement]:
    """Return the judgement of each of these losses, one behind the other."""
    record, judged = LossRecord(), list[Judgement]()
    for now_ms in at_ms:
        judged.append(judge_loss(record, now_ms, hosted_ms, neighbours, LIMITS))
        record = judged[-1].record
    return judged


def test_the_second_loss_within_a_minute_parts_the_tasks() -> None:
    assert [loss.apart for loss in losses(0, 59_000)] == [False, True]
    assert [loss.apart for loss in losses(0, 61_000)] == [False, False]


def test_the_third_loss_within_ten_minutes_parts_the_tasks_too() -> None:
    assert [loss.apart for loss in losses(0, 200_000, 400_000)] == [False, False, True]
    assert [loss.apart for loss in losses(0, 400_000, 800_000)] == [False, False, False]


def test_a_task_that_shares_its_process_is_never_guilty() -> None:
    assert not any(loss.guilty for loss in losses(*range(0, 3_600_000, 30_000), neighbours=(B,)))


def test_a_task_alone_is_guilty_after_five_minutes_of_losses() -> None:
    judged = losses(*range(0, 330_000, 30_000))
    assert [judgement.guilty for judgement in judged] == [False] * 10 + [True]


def test_few_losses_that_are_far_apart_make_no_task_guilty() -> None:
    assert not any(loss.guilty for loss in losses(0, 150_000, 300_000))


def test_task_that_lives_for_minutes_each_time_is_guilty_at_its_tenth_loss() -> None:
    judged = losses(*range(0, 900_000, 90_000), hosted_ms=61_000)
    assert [judgement.guilty for judgement in judged] == [False] * 9 + [True]
    record = judged[-1].record
    assert "the 10. time in a row in 810 s" in verdict_text(A, "slot 4", record, 810_000, "died")
    moved = replace(record.progressed(), lost_at_ms=())
    assert not judge_loss(moved, 900_000, 61_000, (), LIMITS).guilty


def test_task_that_lives_for_ten_minutes_each_time_is_not_guilty() -> None:
    assert not any(loss.guilty for loss in losses(*range(0, 36_000_000, 700_000), hosted_ms=601_000))


def test_progress_starts_the_count_again() -> None:
    record = losses(*range(0, 300_000, 30_000))[-1].record.progressed()
    judged = judge_loss(record, 330_000, 1_000, (), LIMITS)
    assert (judged.guilty, judged.delay_ms, judged.apart) == (False, LIMITS.backoff_ms, True)


def test_the_waiting_grows_to_half_a_minute() -> None:
    delays = [loss.delay_ms for loss in losses(*range(0, 12_000, 1_000))]
    assert delays == [200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000, 30_000, 30_000, 30_000]


def test_a_task_with_more_losses_stays_apart_for_longer() -> None:
    twice, often = losses(0, 1_000)[-1].record, losses(0, 1_000, 2_000, 3_000)[-1].record
    assert [is_cleared(twice, ms, LIMITS) for ms in (60_000, 60_001)] == [False, True]
    assert [is_cleared(often, ms, LIMITS) for ms in (180_000, 180_001)] == [False, True]


def test_a_verdict_names_who_was_there() -> None:
    shared = judge_loss(LossRecord(), 0, 1_000, (B,), LIMITS).record
    alone = judge_loss(shared, 1_000, 1_000, (), LIMITS).record
    text = verdict_text(A, "slot 4", alone, 6_000, "the reader process died")
    assert text.startswith("task a-0 ends its process: slot 4 was lost, the 1. time in a row in 5 s")
    assert "the reader process died" in text
    assert "shared a process with b-0" in text


def test_of_many_names_the_first_are_shown() -> None:
    assert named([ConnectorTaskId("a", number) for number in range(12)]).endswith("a-9 and 2 more")


@given(st.lists(st.integers(0, 400_000), min_size=1, max_size=60), st.integers(0, 60_000))
def test_no_task_is_guilty_before_five_minutes_of_losses(gaps_ms: list[int], hosted_ms: int) -> None:
    record, now_ms = LossRecord(), 0
    for gap_ms in gaps_ms:
        now_ms += gap_ms
        judged = judge_loss(record, now_ms, hosted_ms, (), LIMITS)
        record = judged.record
        assert 0 < judged.delay_ms <= LIMITS.backoff_max_ms
        if judged.guilty:
            assert now_ms - record.alone_since_ms >= LIMITS.guilty_after_ms
            assert record.alone >= LIMITS.guilty_losses


def test_a_slot_is_opened_again_within_a_minute() -> None:
    assert [opening_delay_ms(failures) for failures in (1, 2, 9, 10, 1_000)] == [200, 400, 51_200, 60_000, 60_000]
