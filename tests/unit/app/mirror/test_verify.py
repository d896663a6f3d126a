"""Comparing partitions by digests: lost, late, repeated, expired, foreign and disordered records."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from spark_connect_rt.app.mirror.verify_rules import (
    Compared,
    ComparedRecord,
    FailOver,
    Sides,
    compare,
    contains,
    digest,
    fail_over,
    total,
)


def log(text: str, begins: int = 0, *, keyed: bool = False) -> Sequence[ComparedRecord]:
    """Return a record for each word; keyed: ``k=v``, and ``k=`` is a tombstone."""
    found = []
    for offset, word in enumerate(text.split(), begins):
        key, _, value = word.partition("=")
        found.append(ComparedRecord(offset, word.encode(), key.encode() if keyed else None, keyed and not value))
    return found


@pytest.mark.parametrize(
    ("source", "target", "position", "expected"),
    [
        ("a b c", "a b c", 2, Compared(same=3)),
        ("a b c d", "a b c", 2, Compared(same=3, not_copied_yet=1)),
        ("a b c d", "a b c", None, Compared(same=3, not_copied_yet=1)),
        ("a b c d", "a b c", 3, Compared(same=3, missing=1)),
        ("a b c d", "a c d", 3, Compared(same=3, missing=1)),
        ("a b c d", "a b c b c d", 3, Compared(same=4, repeated=2)),
        ("a a b", "a b", 2, Compared(same=2, missing=1)),
        ("a b c", "a B c", 2, Compared(same=2, missing=1, foreign=1)),
        ("a b c", "a c b", 2, Compared(same=3, out_of_order=1)),
        ("", "", None, Compared()),
        ("a b", "", None, Compared(not_copied_yet=2)),
        ("a b", "", 1, Compared(missing=2)),
    ],
)
def test_a_partition_and_its_copy(source: str, target: str, position: int | None, expected: Compared) -> None:
    assert compare(Sides(log(source), log(target), position)) == expected


def test_record_deleted_on_one_side_only_is_not_missing() -> None:
    kept = compare(Sides(log("c d", 2), log("a b c d"), 3, source_begins=2))
    assert (kept, kept.is_right) == (Compared(same=2, expired=2), True)
    cleaned = compare(Sides(log("a b c d"), log("c d", 7), 3, target_begins=7))
    assert (cleaned, cleaned.is_right) == (Compared(same=2, expired=2), True)
    assert not compare(Sides(log("a b c d"), log("c d", 0), 3)).is_right


def test_of_a_compacted_partition_the_newest_of_each_key_counts() -> None:
    source, target = log("k=1 l=1 k=2 m=1 m=", keyed=True), log("k=1 l=1 k=1 k=2", keyed=True)
    assert compare(Sides(source, target, 4, compacted=True)) == Compared(same=2)
    stale = log("k=1 l=1", keyed=True)
    assert compare(Sides(source, stale, 4, compacted=True)) == Compared(same=1, missing=1, foreign=1)
    assert compare(Sides(source, stale, 1, compacted=True)) == Compared(same=2, not_copied_yet=3)
    ahead = log("k=1 l=1 k=2", keyed=True)  # what is there though nobody has committed it yet
    assert compare(Sides(source, ahead, 1, compacted=True)) == Compared(same=2, not_copied_yet=2)


def test_a_window_must_be_in_the_other_which_may_hold_more() -> None:
    assert contains(Sides(log("b c"), log("a b x c c"))) == Compared(same=2)
    assert contains(Sides(log("b c"), log("b"))) == Compared(same=1, missing=1)


@pytest.mark.parametrize(
    ("source", "target", "position", "expected"),
    [
        ("c d", "c d", 3, FailOver()),
        ("c d", "a b c d", 3, FailOver(repeated=2)),
        ("c d e", "d", 3, FailOver(lost=2, not_copied_yet=1)),
        ("c d", "c d c d", 3, FailOver(repeated=2)),
        ("", "b", 3, FailOver(repeated=1)),
        ("c", "", 3, FailOver(lost=1)),
    ],
)
def test_a_group_that_continues_at_the_target(source: str, target: str, position: int, expected: FailOver) -> None:
    assert fail_over(Sides(log(source, 2), log(target), position)) == expected


def test_a_digest_covers_everything_that_a_copy_keeps() -> None:
    variants = [
        digest(b"k", b"v", [], 1),
        digest(b"k", b"v", [], 2),
        digest(b"kv", b"", [], 1),
        digest(None, b"v", [], 1),
        digest(b"k", None, [], 1),
        digest(b"k", b"v", [("h", b"x")], 1),
        digest(b"k", b"v", [("h", None)], 1),
        digest(b"k", b"v", [("h", b"x"), ("h", b"x")], 1),
    ]
    assert len(set(variants)) == len(variants)
    assert digest(b"k", b"v", [("h", b"x")], 1) == digest(b"k", b"v", [("h", b"x")], 1)


def test_counts_are_summed() -> None:
    assert total([Compared(same=1, missing=2), Compared(same=3, foreign=1)]) == Compared(4, 2, foreign=1)
