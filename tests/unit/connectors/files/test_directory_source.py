"""Directory source: every format, order, settling, what becomes of files, restarts, bad files."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_connect_rt.api.data import schema as s
from spark_connect_rt.api.records import SourceBatch
from spark_connect_rt.connectors.files import delimited_rows
from spark_connect_rt.connectors.files.directory_source import DirectorySourceConnector, DirectorySourceTask
from spark_connect_rt.errors import BadConfigError, ConnectError, DataError
from spark_connect_rt.records.pipeline.source_pipeline import rows_of_piece
from tests.unit.connectors.task_context import Context


class Store:
    """What the offset topic would hold; a test says when something is stored."""

    def __init__(self) -> None:
        self.stored: dict[str, Mapping[str, Any]] = {}

    def offsets(self, partitions: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any] | None]:
        return [self.stored.get(partition["file"]) for partition in partitions]


class Run:
    """One run of a task on a directory, with a clock that moves at each poll."""

    def __init__(self, folder: Path, store: Store | None = None, tolerant: bool = False, **config: str) -> None:
        self.store = store or Store()
        self.now_ms = 0
        self.task = DirectorySourceTask()
        self.task.clock = lambda: self.now_ms  # type: ignore[method-assign]
        self.context = Context(tolerant=tolerant)
        self.context.offset_reader = self.store  # type: ignore[assignment]
        self.task.context = self.context
        settings = {k.replace("_", "."): v for k, v in config.items()}
        self.task.start({"directory": str(folder), "topic": "t", "file.settle.ms": "0", **settings})

    def poll(self) -> list[Any]:
        """Poll until nothing comes three times; the values, each with its file's name."""
        found, idle = [], 0
        while idle < 3:
            polled = self.task.poll()
            idle = 0 if polled else idle + 1
            self.now_ms += 0 if polled else 2_000
            for piece in polled or ():
                self.last = piece
                name = os.path.basename(piece.source_partition["file"])
                values = piece.values.to_pylist() if isinstance(piece, SourceBatch) else [piece.value]
                found += [(name, value) for value in values]
                self.store.stored[piece.source_partition["file"]] = dict(piece.source_offset)
        return found


def rows(found: list[Any]) -> list[Any]:
    return [(name, *row.values()) for name, row in found]


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        (folder / f"{name}.csv").write_text(text)


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_files_come_in_the_order_of_their_names_and_each_once(tmp_path: Path) -> None:
    write(tmp_path, b="n\n3\n4\n", a="n\n1\n2")
    run = Run(tmp_path, schema="n:int32")
    assert rows(run.poll()) == [("a.csv", 1), ("a.csv", 2), ("b.csv", 3), ("b.csv", 4)]
    assert run.poll() == []
    write(tmp_path, c="n\n5\n")
    assert rows(run.poll()) == [("c.csv", 5)]
    assert run.last.source_partition == {"file": str(tmp_path / "c.csv")}
    modified_ms = (tmp_path / "c.csv").stat().st_mtime_ns // 1_000_000
    assert run.last.source_offset == {"line": 2, "position": 4, "size": 4, "modified": modified_ms}
    assert Run(tmp_path, run.store, schema="n:int32").poll() == []


def test_a_file_name_that_is_not_utf8_is_spelled_out_in_the_offsets(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"caf\xe9.csv")
    path.write_text("n\n1\n")
    run = Run(tmp_path)
    assert rows(run.poll()) == [("caf\\udce9.csv", "1")]
    assert run.last.source_partition["file"].encode()
    assert Run(tmp_path, run.store).poll() == []


def test_files_may_come_in_the_order_of_their_times(tmp_path: Path) -> None:
    write(tmp_path, a="n\n1\n", b="n\n2\n")
    os.utime(tmp_path / "a.csv", (2_000, 2_000))
    os.utime(tmp_path / "b.csv", (1_000, 1_000))
    assert rows(Run(tmp_path, file_order="modified").poll()) == [("b.csv", "2"), ("a.csv", "1")]


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_a_restart_resumes_in_the_middle_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    monkeypatch.setattr(delimited_rows, "CHUNK_BYTES", 64)
    texts = {
        "csv": "n,text\n" + "".join(f'{n},"x\n{n}"\n' for n in range(100)),
        "jsonl": "".join(f'{{"n": "{n}", "text": "x\\n{n}"}}\n' for n in range(100)),
    }
    write(tmp_path, a=texts[form])
    config = {"format": form, "schema": "n:string,text:string"}
    run, seen = Run(tmp_path, **config), []
    for _ in range(5):
        (batch,) = run.task.poll() or ()
        assert isinstance(batch, SourceBatch)
        seen += batch.values.to_pylist()
        run.store.stored[str(tmp_path / "a.csv")] = batch.source_offset
    assert 0 < len(seen) < 100
    seen += [row for _, row in Run(tmp_path, run.store, **config).poll()]
    assert seen == [{"n": str(n), "text": f"x\n{n}"} for n in range(100)]


def test_a_file_is_read_when_it_did_not_change_for_the_time_to_settle(tmp_path: Path) -> None:
    run = Run(tmp_path, file_settle_ms="5000", poll_interval_ms="1")
    file = tmp_path / "a.csv"
    for text in ("n\n", "n\n1\n", "n\n1\n2\n"):
        file.write_text(text)
        assert run.task.poll() is None
        run.now_ms += 4_999
        assert run.task.poll() is None
        run.now_ms += 1
    file.write_text("n\n1\n2\n3\n")
    assert run.task.poll() is None
    run.now_ms += 5_000
    assert [row["n"] for _, row in run.poll()] == ["1", "2", "3"]


@pytest.mark.parametrize(
    ("done", "left"),
    [
        ("leave", ["a.csv", "b.csv"]),
        ("delete", ["b.csv"]),  # b has bytes and no row
        ("move", ["b.csv", "done/a.csv", "done/a.csv.1"]),
        ("rename", ["a.csv.done", "b.csv"]),
    ],
)
def test_finished_file_waits_for_its_offset_to_be_stored(tmp_path: Path, done: str, left: list[str]) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    write(folder, a="n\n1\n", b="n\n")
    if done == "move":
        (folder / "done").mkdir()
        write(folder / "done", a="older\n")
    run = Run(folder, file_done=done, file_done_directory=str(folder / "done"))
    polled = run.task.poll()
    for _ in range(5):
        run.now_ms += 5_000
        assert not run.task.poll()
    assert (folder / "a.csv").exists()  # handed on, and not yet stored
    assert polled is not None
    run.store.stored[str(folder / "a.csv")] = dict(polled[0].source_offset)
    assert run.poll() == []
    assert names(folder) == left
    assert run.poll() == []
    again = Run(folder, run.store, file_done=done, file_done_directory=str(folder / "done"))
    assert again.poll() == []
    assert names(folder) == left


def test_a_file_changed_after_it_was_read_is_read_again_and_not_deleted(tmp_path: Path) -> None:
    write(tmp_path, a="n\n1\n")
    run = Run(tmp_path, file_done="delete")
    (batch,) = run.task.poll() or ()
    assert run.task.poll() is None
    run.store.stored[str(tmp_path / "a.csv")] = batch.source_offset
    write(tmp_path, a="n\n1\n2\n")
    assert rows(run.poll()) == [("a.csv", "1"), ("a.csv", "2")]
    assert names(tmp_path) == []


def test_another_file_of_the_same_name_is_read_from_its_beginning(tmp_path: Path) -> None:
    write(tmp_path, a="n\n1\n2\n")
    run = Run(tmp_path)
    assert len(run.poll()) == 2
    write(tmp_path, a="n\n7\n8\n9\n")
    assert rows(run.poll()) == [("a.csv", "7"), ("a.csv", "8"), ("a.csv", "9")]
    assert Run(tmp_path, run.store).poll() == []


def test_patterns_hidden_files_and_folders(tmp_path: Path) -> None:
    for name in ("a1.csv", "a2.csv", "b1.csv", ".a1.csv", "_a1.csv", "a1.csv.part"):
        (tmp_path / name).write_text("n\n1\n")
    (tmp_path / "a9.csv").mkdir()
    assert rows(Run(tmp_path, file_pattern="a?.csv").poll()) == [("a1.csv", "1"), ("a2.csv", "1")]
    assert rows(Run(tmp_path, file_pattern="*.csv", file_regex="[ab]1.*").poll()) == [("a1.csv", "1"), ("b1.csv", "1")]


def test_tasks_share_the_files_and_none_is_left_out(tmp_path: Path) -> None:
    for number in range(30):
        write(tmp_path, **{f"f{number}": f"n\n{number}\n"})
    connector = DirectorySourceConnector()
    connector.start({"directory": str(tmp_path), "topic": "t"})
    shares = []
    for config in connector.task_configs(3):
        own = {name.replace(".", "_"): value for name, value in config.items() if name.startswith("directory.")}
        shares.append({row["n"] for _, row in Run(tmp_path, **own).poll()})
    assert all(shares)
    assert sorted(number for share in shares for number in share) == sorted(map(str, range(30)))


BAD = "n,m\n1,a\nx,b\n3,c\n"


@pytest.mark.parametrize(
    ("form", "text", "place"),
    [
        ("csv", BAD, "line 3 offset 8"),
        ("jsonl", '{"n": 1}\n{"n": "x"}\n{"n": 3}\n', "line 2 offset 9"),
        ("jsonl", '{"n": 1}\n{"n":\n{"n": 3}\n', "line 2 offset 9"),
    ],
)
def test_unreadable_rows_are_tolerated_by_the_row(tmp_path: Path, form: str, text: str, place: str) -> None:
    write(tmp_path, a=text)
    run = Run(tmp_path, tolerant=True, format=form, schema="n:int32")
    assert [row["n"] for _, row in run.poll()] == [1, 3]
    assert [place for place, _ in run.context.errant] == [f"file {tmp_path}/a.csv {place}"]


def test_an_unreadable_row_fails_the_task_behind_the_rows_before_it(tmp_path: Path) -> None:
    write(tmp_path, a=BAD)
    run = Run(tmp_path, schema="n:int32")
    assert [len(batch.values) for batch in run.task.poll() or () if isinstance(batch, SourceBatch)] == [1]
    with pytest.raises(DataError, match=r"a.csv line 3 offset 8: column n: .*invalid value 'x'"):
        run.task.poll()


def test_bad_files_go_to_the_error_directory_and_the_next_file_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    write(folder, a=BAD, b="m\n1\n", c="n\n5\n")
    run = Run(folder, schema="n:int32", file_error_directory=str(tmp_path / "bad"))
    assert [(name, row["n"]) for name, row in run.poll()] == [("a.csv", 1), ("c.csv", 5)]
    assert names(tmp_path) == ["bad/a.csv", "bad/b.csv", "in/c.csv"]


def test_a_bad_file_stays_until_the_rows_before_the_bad_one_are_stored(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    write(folder, a=BAD)
    run = Run(folder, schema="n:int32", file_error_directory=str(tmp_path / "bad"))
    (batch,) = run.task.poll() or ()
    for _ in range(5):
        run.now_ms += 5_000
        assert not run.task.poll()
    assert names(tmp_path) == ["in/a.csv"]
    run.store.stored[str(folder / "a.csv")] = batch.source_offset
    assert run.poll() == []
    assert names(tmp_path) == ["bad/a.csv"]


def test_a_file_that_is_not_parquet_fails_the_task_or_is_tolerated_and_left(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"PAR1 no")
    with pytest.raises(DataError, match=f"unreadable input at file {tmp_path}/a: "):
        Run(tmp_path, format="parquet").poll()
    run = Run(tmp_path, format="parquet", tolerant=True)
    assert (run.poll(), len(run.context.errant)) == ([], 1)
    assert names(tmp_path) == ["a"]


def test_parquet_rows_have_the_files_types_and_a_restart_resumes_by_row(tmp_path: Path) -> None:
    at = dt.datetime(2026, 11, 21, 20, 30, 0, 123_456, tzinfo=dt.UTC)
    table = pa.table(
        {
            "id": pa.array(range(20_000), pa.uint32()),
            "price": pa.array([Decimal("1.50")] * 20_000, pa.decimal128(9, 2)),
            "at": pa.array([at] * 20_000, pa.timestamp("us", "UTC")),
            "day": pa.array([at.date()] * 20_000, pa.date32()),
            "tags": pa.array([["x", None]] * 20_000, pa.list_(pa.large_string())),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=3_000)
    run = Run(tmp_path, format="parquet", key_field="id")
    (first,) = run.task.poll() or ()
    assert isinstance(first, SourceBatch)
    assert first.value_schema is not None
    fields = [(m.name, m.schema.type, m.schema.name, m.schema.optional) for m in first.value_schema.fields]
    connect = "org.apache.kafka.connect.data"
    assert fields == [
        ("id", s.Type.INT64, None, True),
        ("price", s.Type.BYTES, f"{connect}.Decimal", True),
        ("at", s.Type.INT64, f"{connect}.Timestamp", True),
        ("day", s.Type.INT32, f"{connect}.Date", True),
        ("tags", s.Type.ARRAY, None, True),
    ]
    row = {"id": 0, "price": Decimal("1.50"), "at": at.replace(microsecond=123_000), "day": at.date()}
    assert first.values[0].as_py() == {**row, "tags": ["x", None]}
    assert first.keys is not None
    assert first.keys[0].as_py() == "0"
    here = len(first.values)
    assert (0 < here < 20_000, first.source_offset["row"]) == (True, here)
    run.store.stored[str(tmp_path / "a.parquet")] = first.source_offset
    rest = Run(tmp_path, run.store, format="parquet", key_field="id").poll()
    assert [row["id"] for _, row in rest] == list(range(here, 20_000))


def test_rows_with_maps_are_dicts_in_their_records(tmp_path: Path) -> None:
    maps = pa.array([[("a", 1)], [("b", 2)]], pa.map_(pa.string(), pa.int32()))
    pq.write_table(pa.table({"m": maps}), tmp_path / "a.parquet")
    (batch,) = Run(tmp_path, format="parquet").task.poll() or ()
    assert [record.value["m"] for record, *_ in rows_of_piece(batch)] == [{"a": 1}, {"b": 2}]
    assert batch.source_offset["row"] == 2


def test_types_are_inferred_from_the_first_rows_if_wanted(tmp_path: Path) -> None:
    write(tmp_path, a="n,f,b,t,day\n1,2.5,true,x,2026-01-01\n2,,false,y,2026-01-02")
    (_, row), _ = Run(tmp_path, schema_infer="true", schema="n:int16").poll()
    assert row == {"n": 1, "f": 2.5, "b": True, "t": "x", "day": "2026-01-01"}
    (tmp_path / "a.csv").write_text('{"n": 1, "t": "x"}\n{"n": 2, "late": null}\n')
    run = Run(tmp_path, schema_infer="true", format="jsonl")
    assert [row for _, row in run.poll()] == [{"n": 1, "t": "x", "late": None}, {"n": 2, "t": None, "late": None}]
    schema = run.last.value_schema
    assert [member.schema for member in schema.fields] == [s.OPTIONAL_INT64, s.OPTIONAL_STRING, s.OPTIONAL_STRING]
    (tmp_path / "a.csv").write_text('{"n": {"deep": 1}}\n')
    with pytest.raises(DataError, match=r"column n contains struct.*Set the columns in schema"):
        Run(tmp_path, schema_infer="true", format="jsonl").poll()


def test_a_directory_that_is_not_there_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ConnectError, match="gone cannot be listed: No such file or directory"):
        Run(tmp_path / "gone").poll()


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"format": "xml"}, "format"),
        ({"format": "jsonl"}, "schema"),
        ({"file.done": "burn"}, "file.done"),
        ({"file.done": "move"}, "file.done.directory"),
        ({"file.regex": "("}, "file.regex"),
        ({"directory": ""}, "directory"),
    ],
)
def test_wrong_settings_are_named_at_the_start_and_by_validation(
    tmp_path: Path, settings: dict[str, str], name: str
) -> None:
    config = {"directory": str(tmp_path), "topic": "t", **settings}
    with pytest.raises(BadConfigError) as caught:
        DirectorySourceTask().start(config)
    assert list(caught.value.problems) == [name]
    connector = DirectorySourceConnector()
    own = {value.name for value in connector.config_def().validate(config) if value.errors}
    assert own | set(connector.validate(config)) == {name}


def test_altered_offsets_are_checked() -> None:
    connector, place = DirectorySourceConnector(), {"file": "/f"}
    assert connector.alter_offsets({}, [(place, {"line": 0, "position": 0}), (place, None)])
    assert connector.alter_offsets({"format": "parquet"}, [(place, {"row": 3})])
    for offset in ({"row": 3}, {"line": -1, "position": 0}, {"line": True, "position": 0}):
        with pytest.raises(ConnectError, match="a whole number that is not negative"):
            connector.alter_offsets({}, [(place, offset)])
    with pytest.raises(ConnectError, match="a source partition must be"):
        connector.alter_offsets({}, [({"filename": "/f"}, {"line": 0, "position": 0})])


@pytest.mark.parametrize("done", ["delete", "move", "rename"])
def test_a_preview_changes_no_file(tmp_path: Path, done: str) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    write(folder, a="n\n1\n", empty="", read="n\n2\n", z="m\n1\n")
    store = Store()
    Run(folder, store, schema="n:int32", file_pattern="read.csv").poll()
    before = names(tmp_path)
    directories = {"file_done_directory": str(tmp_path / "done"), "file_error_directory": str(tmp_path / "bad")}
    run = Run(folder, store, tolerant=True, schema="n:int32", file_done=done, **directories)
    run.context.previewed = True
    assert [row["n"] for _, row in run.poll()] == [1]
    assert run.poll() == []
    assert names(tmp_path) == before
    assert ["the header has no column n" in error for _, error in run.context.errant] == [True]
