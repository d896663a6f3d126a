"""A batch gets into a table of files once, whatever fails on the way, and nothing beside it is touched."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from spark_connect_rt.base.ids import ConnectorTaskId, TopicPartition
from spark_connect_rt.engine.formats.table_writer import FileTableWriter
from tests.unit.engine.local_hadoop import local_session

P0 = TopicPartition("t", 0)
RANGES = {P0: (0, 100)}


class Frame:
    """Stands for a DataFrame: its rows become two files of the staging folder."""

    def __init__(self, tag: str = "x") -> None:
        self.tag, self.saved = tag, 0
        self.write = self

    def format(self, _: str) -> Frame:
        return self

    def options(self, **_: str) -> Frame:
        return self

    def mode(self, _: str) -> Frame:
        return self

    def save(self, path: str) -> None:
        self.saved += 1
        folder = Path(path)
        folder.mkdir(parents=True)
        (folder / "_SUCCESS").touch()
        for number in (0, 1):
            (folder / f"part-{number}-{self.tag}{self.saved}.parquet").write_text(f"{number}")


class Table:
    """A table, what renames there may do, and its sink's writers."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.session, self.files = local_session()

    def writer(self, task: int = 0, connector: str = "s") -> FileTableWriter:
        return FileTableWriter(self.session, "parquet", str(self.path), ConnectorTaskId(connector, task), {})

    def rows(self) -> list[str]:
        return sorted(path.read_text() for path in self.path.glob("part-*"))


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path / "table")


def failing(on: str, error: Exception) -> Any:
    """Return what raises at the first rename to a name with ``on``."""
    left = [error]

    def rename(_: str, target: str) -> None:
        if on in os.path.basename(target) and left:
            raise left.pop()

    return rename


def test_a_batch_whose_declaration_failed_behind_the_rename_is_in_the_table_once(table: Table) -> None:
    table.files.after_rename = failing("manifest.json", OSError("the connection broke"))
    writer = table.writer()
    with pytest.raises(OSError, match="the connection broke"):
        writer.append(Frame(), "one", RANGES)
    assert writer.holds("one")
    assert table.rows() == ["0", "1"]


def test_a_declaration_that_a_kill_kept_from_its_name_counts(table: Table) -> None:
    """Killed behind the older manifest's deletion, before the rename: neither batch is written twice or lost."""
    frame = Frame()
    table.writer().append(frame, "one", {P0: (0, 5)})
    table.files.before_rename = failing("manifest.json", OSError("killed"))
    with pytest.raises(OSError, match="killed"):
        table.writer().append(frame, "two", RANGES)
    assert table.writer().recover().ranges == RANGES
    assert len(table.rows()) == 4
    assert table.writer().holds("two")


def test_a_declaration_that_was_not_written_whole_does_not_count(table: Table) -> None:
    writer = table.writer()
    assert not writer.holds("one")
    (table.path / "_connectrt" / "s" / "0").mkdir(parents=True)
    for half in ("", '{"staging": "one", "ran', "[]"):
        (table.path / "_connectrt" / "s" / "0" / "manifest.json.new").write_text(half)
        assert not writer.holds("one")
        assert writer.recover().ranges == {}
    writer.append(Frame(), "two", RANGES)
    assert writer.holds("two")
    assert table.rows() == ["0", "1"]


def test_moves_that_failed_are_made_again_when_asked_whether_the_batch_is_there(table: Table) -> None:
    table.files.before_rename = failing("part-1", OSError("try again"))
    writer = table.writer()
    with pytest.raises(OSError, match="could not move"):
        writer.append(Frame(), "one", RANGES)
    assert table.rows() == ["0"]
    assert writer.holds("one")
    assert table.rows() == ["0", "1"]


def test_a_move_that_is_refused_keeps_the_staged_file(table: Table) -> None:
    refused = ["part-1"]
    table.files.before_rename = lambda _, target: False if any(name in target for name in refused) else None
    with pytest.raises(OSError, match=r"could not move .*part-1"):
        table.writer().append(Frame(), "one", RANGES)
    refused.clear()
    assert table.writer().recover().ranges == RANGES
    assert table.rows() == ["0", "1"]


def test_a_name_taken_by_another_file_is_an_error(table: Table) -> None:
    table.path.mkdir()
    (table.path / "part-1-x1.parquet").write_text("a file of somebody else")
    with pytest.raises(OSError, match=r"could not move .*part-1-x1"):
        table.writer().append(Frame(), "one", RANGES)


def test_a_sibling_may_finish_the_same_batch_at_the_same_time(table: Table) -> None:
    """A task that starts finishes what others declared, also while they are at it themselves."""
    met = []

    def rename(source: str, _: str) -> None:
        if "part-1" in source and not met:
            met.append(source)
            assert table.writer(task=1).recover().ranges == RANGES

    table.files.before_rename = rename
    table.writer(task=0).append(Frame(), "one", RANGES)
    assert met
    assert table.rows() == ["0", "1"]
    assert not (table.path / "_connectrt" / "s" / "0" / "one").exists()


@pytest.mark.parametrize("name", ["..", "../..", ".", "a/0", "../../../outside"])
def test_a_connectors_name_is_not_a_path(tmp_path: Path, name: str) -> None:
    table = Table(tmp_path / "data" / "table")
    (tmp_path / "data" / "table" / "0").mkdir(parents=True)
    (tmp_path / "data" / "table" / "part-kept").write_text("kept")
    (tmp_path / "data" / "other").write_text("other")
    neighbour = table.writer(connector="a")
    neighbour.append(Frame(), "one", RANGES)
    writer = table.writer(connector=name)
    writer.append(Frame("y"), "two", {P0: (100, 200)})
    homes = {path.parent.parent for path in table.path.rglob("manifest.json")}
    assert {home.parent for home in homes} == {table.path / "_connectrt"}
    assert len(homes) == 2
    writer.forget()
    writer.forget_all()
    assert table.rows() == ["0", "0", "1", "1", "kept"]
    assert (tmp_path / "data" / "other").exists()
    assert (tmp_path / "data" / "table" / "0").exists()
    assert neighbour.recover().ranges == RANGES
