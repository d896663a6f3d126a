"""What members hold, in the order in which a leader takes it away."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.group.compact.reported_work import sampled
from spark_connect_rt.group.subprotocol import Assignment, WorkerMetadata


def holding(tasks: list[ConnectorTaskId]) -> WorkerMetadata:
    return WorkerMetadata(
        "http://w/", 1, Assignment("", "", 1, tuple(sorted({t.connector for t in tasks})), tuple(tasks))
    )


@given(st.lists(st.integers(1, 60), min_size=1, max_size=6), st.floats(0.1, 1.0))
def test_every_beginning_has_of_each_connector_what_its_share_is(sizes: list[int], part: float) -> None:
    held = [ConnectorTaskId(f"c{number}", task) for number, size in enumerate(sizes) for task in range(size)]
    found = sampled({"m": holding(held)})["m"].allocation
    assert found is not None
    assert sorted(found.tasks) == sorted(held)
    assert sorted(found.connectors) == sorted({task.connector for task in held})
    count = round(part * len(held))
    taken = Counter(task.connector for task in found.tasks[:count])
    for number, size in enumerate(sizes):
        assert abs(taken[f"c{number}"] - count * size / len(held)) <= 3


def test_empty_member_samples_to_an_empty_member() -> None:
    assert sampled({"m": WorkerMetadata("http://w/", 1)}) == {"m": WorkerMetadata("http://w/", 1)}
