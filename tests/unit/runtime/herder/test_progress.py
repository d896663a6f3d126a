"""What counts as motionless."""

import pytest

from spark_connect_rt.runtime.herder.health import Stall, stall_of
from spark_connect_rt.runtime.worker.worker_task import Movement, patience_ms


@pytest.mark.parametrize(
    ("movement", "stall"),
    [
        (Movement(moved_at_ms=0), None),  # nothing to do, for ever
        (Movement(0, behind_since_ms=0), Stall(0, "records wait, but none of them was taken")),
        (Movement(0, behind_since_ms=901), None),  # idle for long, and then a record came
        (Movement(901, behind_since_ms=0), None),  # always behind, always moving
        (Movement(950, calls=(("put", 899),)), Stall(899, "put() has not returned")),
        (Movement(950, calls=(("poll", 950), ("send", 901))), None),
        (Movement(0, behind_since_ms=0, patience_ms=901), None),  # a table's batch is being collected
        (Movement(0, behind_since_ms=0, calls=(("put", 5),)), Stall(5, "put() has not returned")),
    ],
)
def test_at_1000_with_a_limit_of_100(movement: Movement, stall: Stall | None) -> None:
    assert stall_of(movement, 1_000, 100) == stall


def test_0_is_never() -> None:
    assert stall_of(Movement(0, behind_since_ms=0, calls=(("put", 0),)), 10**9, 0) is None


def test_a_tables_patience_is_its_flush_interval() -> None:
    assert [patience_ms({"flush.interval.ms": text}) for text in ("70000", "${x:y}")] == [70_000, 10_000]
