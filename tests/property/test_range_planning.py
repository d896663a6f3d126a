"""Batches of a table sink: bounded, fair, and cut without losing or repeating an offset."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.config.spark_connectors import TableFlushSettings
from spark_connect_rt.engine.formats.table_batch import bounded_ends, cut, flush_is_due, pending_count

partitions = st.builds(TopicPartition, st.sampled_from(["a", "b"]), st.integers(0, 5))
spans = st.dictionaries(partitions, st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)), max_size=8)


def positions_and_ends(
    spans: dict[TopicPartition, tuple[int, int]],
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    return {p: s for p, (s, _) in spans.items()}, {p: s + n for p, (s, n) in spans.items()}


@given(spans, st.integers(1, 10**6))
def test_a_batch_is_bounded_and_every_waiting_partition_moves(spans: dict, most: int) -> None:
    positions, ends = positions_and_ends(spans)
    chosen = bounded_ends(positions, ends, most)
    waiting = {p for p in positions if ends[p] > positions[p]}
    assert set(chosen) == waiting
    assert all(positions[p] < chosen[p] <= ends[p] for p in waiting)
    assert pending_count({p: positions[p] for p in chosen}, chosen) <= max(most, len(waiting))


@given(spans, st.integers(1, 10**6))
def test_a_batch_is_full_when_enough_waits(spans: dict, most: int) -> None:
    positions, ends = positions_and_ends(spans)
    chosen = bounded_ends(positions, ends, most)
    taken = sum(chosen[p] - positions[p] for p in chosen)
    assert taken >= min(most, pending_count(positions, ends))


@given(spans, st.integers(1, 20))
def test_pieces_hold_every_offset_exactly_once(spans: dict, pieces: int) -> None:
    positions, ends = positions_and_ends(spans)
    lists = cut(positions, ends, pieces)
    assert len(lists) <= pieces
    for partition in positions:
        parts = [(s, e) for piece in lists for p, s, e in piece if p == partition]
        assert sum(e - s for s, e in parts) == ends[partition] - positions[partition]
        assert all(left[1] == right[0] for left, right in itertools.pairwise(parts))
        if parts:
            assert (parts[0][0], parts[-1][1]) == (positions[partition], ends[partition])


def test_a_flush_is_due_by_size_or_by_age_and_never_for_nothing() -> None:
    rule = TableFlushSettings.of({"flush.size": 100, "flush.interval.ms": 1_000})
    assert not flush_is_due(rule, 0, 5_000)
    assert not flush_is_due(rule, 99, 999)
    assert flush_is_due(rule, 100, 0)
    assert flush_is_due(rule, 1, 1_000)
