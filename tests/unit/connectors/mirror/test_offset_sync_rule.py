"""Which offsets are synced at once, and which wait; runs are as good as single records."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.connectors.mirror.offset_syncs import OffsetRun, OffsetSyncQueue

P = TopicPartition("t", 0)


def fed(runs: Iterable[OffsetRun], max_lag: int = 100) -> list[tuple[int, int]]:
    """Return the syncs in order: those at once as they come, then what waited."""
    queue, found = OffsetSyncQueue(max_lag), []
    for run in runs:
        for _ in queue.take_in(P, run):
            sync = queue.take()
            assert sync is not None
            found.append((sync.upstream_offset, sync.downstream_offset))
    queue.promote()
    if (last := queue.take()) is not None:
        found.append((last.upstream_offset, last.downstream_offset))
    assert queue.take() is None
    return found


def test_the_first_record_then_one_each_time_the_lag_is_reached_then_the_last() -> None:
    assert fed([OffsetRun(5, 0, 250)]) == [(5, 0), (106, 101), (207, 202), (254, 249)]


def test_behind_a_gap_and_at_a_truncated_target_there_is_a_sync_at_once() -> None:
    assert fed([OffsetRun(0, 0, 3), OffsetRun(7, 3, 2)]) == [(0, 0), (7, 3), (8, 4)]
    assert fed([OffsetRun(0, 50, 3), OffsetRun(3, 0, 2)]) == [(0, 50), (3, 0), (4, 1)]


def test_a_sync_that_is_not_taken_in_time_is_replaced() -> None:
    queue = OffsetSyncQueue(10)
    assert len(list(queue.take_in(P, OffsetRun(0, 0, 34)))) == 4
    newest = queue.take()
    assert newest is not None
    assert newest.upstream_offset == 33
    assert queue.take() is None
    queue.promote()  # the last record was synced: nothing waits
    assert queue.take() is None


@pytest.mark.parametrize("max_lag", [-5, 0, 1, 7])
@given(runs=st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30), st.integers(1, 25)), max_size=6))
def test_a_run_is_as_good_as_its_records_one_by_one(max_lag: int, runs: list[tuple[int, int, int]]) -> None:
    whole = [OffsetRun(*run) for run in runs]
    single = [
        OffsetRun(run.upstream_offset + n, run.downstream_offset + n, 1) for run in whole for n in range(run.count)
    ]
    assert fed(whole, max_lag) == fed(single, max_lag)
