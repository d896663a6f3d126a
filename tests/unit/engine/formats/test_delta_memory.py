"""What a Delta table remembers of a sink's offsets: until the group holds them, and not beyond the topic's end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.engine.formats.table_writer import DeltaTableWriter

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Frame:
    """A row."""

    def toArrow(self) -> pa.Table:  # noqa: N802 - Spark's name
        return pa.table({"n": [1]})


@pytest.fixture
def table(tmp_path: Path) -> Any:
    return lambda: DeltaTableWriter(str(tmp_path / "t"), "sink")


def held(table: Any) -> dict[TopicPartition, tuple[int, int]]:
    return dict(table().recover().ranges)


def test_an_orderly_end_is_remembered_as_one(table: Any) -> None:
    writer = table()
    writer.append(Frame(), "b1", {P0: (0, 500)}, {P0: "id"})
    writer.append(Frame(), "b2", {P0: (0, 1000)}, {P0: "id"})
    assert held(table) == {P0: (0, 1000)}
    assert table().recover().topic_ids == {P0: "id"}
    writer.forget()
    assert held(table) == {}
    assert table().holds("b2")
    again = table()
    again.append(Frame(), "b3", {P0: (1000, 1100)}, {P0: "id"})
    assert held(table) == {P0: (1000, 1100)}
    assert _rows(table).num_rows == 3


def _rows(table: Any) -> Any:
    from deltalake import DeltaTable

    return DeltaTable(table()._path).to_pyarrow_table()


def test_one_task_ends_in_order_and_another_does_not(table: Any) -> None:
    first, second = table(), table()
    first.append(Frame(), "b1", {P0: (0, 10)})
    second.append(Frame(), "b2", {P0: (10, 20), P1: (0, 7)})  # partition 0 was moved to it
    first.forget({P0: (0, 10)})  # what it wrote itself; the other was killed
    assert held(table) == {P0: (10, 20), P1: (0, 7)}
    second.forget({P1: (0, 7)})
    assert held(table) == {P0: (10, 20)}


def test_record_of_an_older_topic_with_the_same_name_is_left_out(table: Any) -> None:
    table().append(Frame(), "b1", {P0: (0, 1000)}, {P0: "old"})
    writer = table()
    writer.append(Frame(), "b2", {P0: (0, 5)}, {P0: "new"})
    assert table().recover().topic_ids == {P0: "new"}
    writer.forget()
    assert held(table) == {}


def test_forget_all_clears_the_memory_of_a_table(table: Any) -> None:
    table().forget_all()  # there is no table yet
    table().append(Frame(), "b1", {P0: (0, 1000)})
    table().forget_all()
    assert held(table) == {}
