"""What is compared of a partition, and what is said about it."""

from __future__ import annotations

from spark_connect_rt.app.mirror.verify_report import (
    FlowReport,
    GroupPartition,
    GroupReport,
    PartitionReport,
    as_json,
    group_rows,
    partition_rows,
)
from spark_connect_rt.app.mirror.verify_rules import Compared, FailOver, Window, windows
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.connectors.mirror.records import OffsetSync

HERE, THERE = TopicPartition("t", 0), TopicPartition("A.t", 0)


def syncs(*pairs: tuple[int, int]) -> list[OffsetSync]:
    return [OffsetSync(HERE, upstream, downstream) for upstream, downstream in pairs]


def partition(compared: Compared | None, target: range | None = range(5)) -> PartitionReport:
    return PartitionReport(HERE, THERE, range(5), target, 4, compared)


def group(*parts: tuple[int | None, FailOver | None], active: bool = False) -> GroupReport:
    return GroupReport("g", [GroupPartition(HERE, 3, where, outcome) for where, outcome in parts], active)


def test_windows_lie_between_syncs_and_within_both_logs() -> None:
    known = syncs((0, 0), (10, 8), (20, 30), (15, 40), (25, 50))
    assert windows(known, 1_000, range(30), range(60)) == [
        Window(range(10), range(8)),
        Window(range(10, 20), range(8, 30)),
        Window(range(15, 25), range(40, 50)),
        Window(range(25, 30), range(50, 60)),
    ]
    assert windows(known, 1_000, range(12, 22), range(45)) == []
    assert windows([], 1_000, range(30), range(60)) == []


def test_fewer_records_take_windows_apart_and_always_the_newest() -> None:
    known = syncs(*((n * 10, n * 10) for n in range(10)))
    chosen = windows(known, 30, range(100), range(100))
    assert [window.source.start for window in chosen] == [10, 50, 90]


def test_a_group_shows_the_effect_of_a_failover() -> None:
    told = {
        "would resume exactly where it was": group((3, FailOver())),
        "would repeat 7 records": group((3, FailOver(repeated=5)), (2, FailOver(repeated=2))),
        "would lose 2 records": group((3, FailOver(2, 1, 9))),
        "has no offset at the target for 1 partitions, where auto.offset.reset decides": group((None, None)),
        "is already used at the target": group((3, FailOver(2, 1, 9)), active=True),
    }
    assert {report.verdict: report.is_safe for report in told.values()} == dict(
        zip(told, [True, True, False, False, True], strict=True)
    )


def test_a_flow_is_good_when_its_copies_are_right_and_its_groups_safe() -> None:
    right, safe = partition(Compared(same=4, not_copied_yet=1, repeated=2, expired=1)), group((3, FailOver(repeated=1)))
    assert FlowReport("A->B", [right, partition(None)], [safe]).is_good
    for wrong in (Compared(missing=1), Compared(foreign=1), Compared(out_of_order=1)):
        assert not FlowReport("A->B", [partition(wrong)], [safe]).is_good
    assert not FlowReport("A->B", [right], [group((3, FailOver(lost=1, not_copied_yet=1)))]).is_good


def test_a_flow_of_which_nothing_was_compared_is_not_called_good() -> None:
    uncompared, empty = partition(None), partition(Compared(not_copied_yet=5), None)
    for parts in ([], [uncompared], [empty, uncompared]):
        report = FlowReport("A->B", parts)
        assert report.records == 0
        assert report.verdict.startswith("nothing compared")
        assert as_json(report)["good"] is False
    some = FlowReport("A->B", [partition(Compared(same=2)), uncompared])
    assert (some.verdict, as_json(some)["good"]) == ("good, 1 of 2 partitions were not compared", True)
    assert FlowReport("A->B", [partition(Compared(same=2))]).verdict == "good"
    assert FlowReport("A->B", [uncompared], [group((3, FailOver(lost=1)))]).verdict == "NOT good"


def test_rows_and_json_say_the_same() -> None:
    report = FlowReport(
        "A->B", [partition(Compared(same=3, missing=2)), partition(None, None)], [group((2, FailOver()))]
    )
    assert partition_rows(report) == [
        ("t-0", "0..5", "0..5", "yes", "3", "0", "2 missing"),
        ("t-0", "0..5", "-", "-", "0", "0", "-"),
    ]
    assert group_rows(report) == [("g", "would resume exactly where it was", "0", "0", "0")]
    document = as_json(report)
    assert (document["flow"], document["good"]) == ("A->B", False)
    assert document["partitions"][0]["compared"]["missing"] == 2
    assert document["partitions"][1]["target"] is None
    assert document["groups"][0]["partitions"] == [{"topic": "t", "partition": 0, "upstream": 3, "downstream": 2}]
