"""``./bench.sh lag_stages``: what it watches is there, and its table is of the right hand-overs."""

from __future__ import annotations

import pytest

from bench import lag_slot, lag_stages
from spark_connect_rt.engine.executor.source_task_writer import SourceTaskWriter
from spark_connect_rt.kafka.copying.batch_sender import BatchSender
from spark_connect_rt.kafka.reading.fetcher import Fetcher

MS = 1_000_000


@pytest.mark.parametrize("records", [False, True])
def test_every_hand_over_that_is_watched_exists(records: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    before = (Fetcher._take, SourceTaskWriter.report_durable, BatchSender._take)
    lag_slot.watch(records, monkeypatch.setattr)
    after = (Fetcher._take, SourceTaskWriter.report_durable, BatchSender._take)
    assert [original is not other for original, other in zip(before, after, strict=True)] == [True, True, not records]


def test_a_stage_begins_where_the_one_before_it_ended() -> None:
    log = {
        lag_slot.FETCHED: {0: [[2, 3 * MS], [3, 30 * MS]]},
        lag_slot.ACKNOWLEDGED: {0: [[2, 7 * MS]]},
        lag_slot.DURABLE: {0: [[2, 107 * MS]]},
    }
    seen = [(0, 1, 1 * MS, 8 * MS), (0, 2, 29 * MS, 40 * MS)]  # the second one's acknowledgement was not noted
    found = lag_stages._table(seen, log)
    assert found["records"] == 1
    assert {name: found[f"{name} p50"] for name in (lag_slot.ACKNOWLEDGED, "seen", "sum")} == {
        lag_slot.ACKNOWLEDGED: 4.0,
        "seen": 1.0,
        "sum": 7.0,
    }
    assert found[f"{lag_slot.FETCHED} p99"] == 2.0
    assert found[f"{lag_slot.DURABLE}, behind the acknowledgement p50"] == 100.0
