"""The folder of a stream's checkpoint: nothing is deleted there but a checkpoint of the connector's own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spark_connect_rt.engine.formats.stream_checkpoint import METADATA, StreamCheckpoint
from spark_connect_rt.errors import ConnectError
from tests.unit.engine.local_hadoop import local_session

STORED = {"batch": 3, "offset": {"t": {"0": 7}}}


def checkpoint_of(folder: Path, connector: str = "mine") -> StreamCheckpoint:
    return StreamCheckpoint(local_session()[0], str(folder), connector)


def begin_batch(folder: Path, batch: int, offset: object) -> None:
    """Write what Spark writes before it runs a batch."""
    (folder / "offsets").mkdir(parents=True, exist_ok=True)
    (folder / "offsets" / str(batch)).write_text(f"v1\n{METADATA}\n{json.dumps(offset)}")
    (folder / "metadata").write_text("{}")


@pytest.mark.parametrize("stored", [None, STORED])
def test_a_folder_with_anything_else_in_it_is_refused_and_left_as_it_is(
    tmp_path: Path, stored: dict[str, object] | None
) -> None:
    (tmp_path / "orders").mkdir()
    (tmp_path / "orders" / "part-0.parquet").write_text("rows")
    with pytest.raises(ConnectError, match=r"spark\.checkpoint"):
        checkpoint_of(tmp_path).prepare(stored)
    assert [str(path.relative_to(tmp_path)) for path in sorted(tmp_path.rglob("*"))] == [
        "orders",
        "orders/part-0.parquet",
    ]


def test_the_checkpoint_of_another_query_is_refused(tmp_path: Path) -> None:
    begin_batch(tmp_path, 9, {"other": 1})
    for stored in (None, STORED):
        with pytest.raises(ConnectError, match=r"spark\.checkpoint.*not a checkpoint of connector mine"):
            checkpoint_of(tmp_path).prepare(stored)
    assert (tmp_path / "offsets" / "9").exists()


def test_the_checkpoint_of_another_connector_is_refused_by_its_name(tmp_path: Path) -> None:
    checkpoint_of(tmp_path, "theirs").prepare(STORED)
    with pytest.raises(ConnectError, match=r"spark\.checkpoint.*belongs to connector theirs"):
        checkpoint_of(tmp_path).prepare(STORED)
    assert checkpoint_of(tmp_path, "theirs").offset_of(3) == STORED


def test_a_connectors_checkpoint_is_reset_and_other_files_stay(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint"
    checkpoint_of(folder).prepare(None)
    begin_batch(folder, 0, {"t": {"0": 1}})
    (folder / "sources" / "0").mkdir(parents=True)
    (folder / "notes.txt").write_text("keep")
    checkpoint_of(folder).prepare(None)
    assert sorted(path.name for path in folder.iterdir() if path.name != "connectrt-owner") == ["notes.txt"]


def test_a_checkpoint_that_matches_the_stored_offset_is_taken_over(tmp_path: Path) -> None:
    """As of a version that did not write whose it is."""
    begin_batch(tmp_path, 3, STORED["offset"])
    begin_batch(tmp_path, 4, {"t": {"0": 9}})
    checkpoint_of(tmp_path).prepare(STORED)
    assert not (tmp_path / "offsets" / "4").exists()
    assert (tmp_path / "commits" / "3").exists()
    checkpoint_of(tmp_path).prepare(None)  # it is known as its own by now
    assert not (tmp_path / "offsets").exists()


def test_an_offset_that_the_checkpoint_does_not_know_is_written_into_a_new_one(tmp_path: Path) -> None:
    checkpoint_of(tmp_path).prepare({"batch": 1, "offset": {"t": {"0": 1}}})
    checkpoint_of(tmp_path).prepare(STORED)
    assert checkpoint_of(tmp_path).offset_of(3) == STORED
    assert sorted(path.name for path in (tmp_path / "offsets").iterdir()) == ["2", "3"]
