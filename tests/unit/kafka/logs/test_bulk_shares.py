"""How a long topic is shared between processes."""

from __future__ import annotations

import io
import queue
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_connect_rt.kafka.logs import bulk_read_process
from spark_connect_rt.kafka.logs.bulk_read_process import MOST_PROCESSES, SHARE_FROM_COUNT, shares


def test_a_short_topic_is_read_by_one() -> None:
    assert shares({0: SHARE_FROM_COUNT, 1: SHARE_FROM_COUNT - 1}, SHARE_FROM_COUNT, cpus=8) == [[0, 1]]
    assert shares({}, SHARE_FROM_COUNT, cpus=8) == [[]]


def test_the_longest_partitions_come_first() -> None:
    assert shares({0: 10, 1: 40, 2: 30, 3: 10}, 20, cpus=2) == [[1, 3], [2, 0]]


def test_a_process_that_the_kernel_does_not_end_is_left_and_named(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Held:
        pid = 7
        stdin, stdout = io.BytesIO(), io.BytesIO()

        def kill(self) -> None: ...

        def wait(self, limit_s: float) -> None:
            raise subprocess.TimeoutExpired("x", limit_s)

    monkeypatch.setattr(bulk_read_process.subprocess, "Popen", lambda *_, **__: Held())
    process = bulk_read_process.BulkReadProcess("offsets", {}, {0: 0}, {0: 1}, queue.SimpleQueue())
    process.close()
    assert "topic offsets: process 7, which read it, was killed but has not ended" in caplog.text


@given(
    st.dictionaries(st.integers(0, 50), st.integers(1, 10**7), max_size=30), st.integers(1, 10**6), st.integers(1, 9)
)
def test_each_partition_is_read_by_exactly_one(left: dict[int, int], share_from: int, cpus: int) -> None:
    found = shares(left, share_from, cpus)
    assert sorted(number for numbers in found for number in numbers) == sorted(left)
    assert len(found) <= max(1, min(cpus, MOST_PROCESSES))
    assert all(found) or not left
    loads = [sum(left[number] for number in numbers) for numbers in found]
    assert max(loads) - min(loads) <= max(left.values(), default=0)
