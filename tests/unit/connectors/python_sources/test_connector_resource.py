"""Connectors of ours as dlt resources: rows by topic, offsets in dlt's state, deletions, refusals; loaded by dlt."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import dlt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_connect_rt.api.connector import SourceConnector
from spark_connect_rt.api.data.schema import INT64, struct_of
from spark_connect_rt.api.data.struct import Struct
from spark_connect_rt.api.records import SourceBatch, SourceRecord
from spark_connect_rt.api.task import SourceTask
from spark_connect_rt.config.config_def import REQUIRED, ConfigDef, ConfigKey, Importance, Type
from spark_connect_rt.connectors.python_sources.dlt_resource import items_until_none_left, resource
from spark_connect_rt.errors import BadConfigError, ConnectError, NotFoundError

PART = {"at": "shelf"}
SCHEMA = struct_of({"id": INT64})
SHELF: list[Any] = []
STOPPED: list[str] = []


class Shelf(SourceConnector):
    def config_def(self) -> ConfigDef:
        return ConfigDef([ConfigKey("step", Type.INT, REQUIRED, Importance.HIGH, "Pieces a poll.")])

    def task_class(self) -> type[Any]:
        return ShelfTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [dict(self.config)]

    def stop(self) -> None:
        STOPPED.append("connector")


class ShelfTask(SourceTask):
    def start(self, config: Mapping[str, str]) -> None:
        (stored,) = self.context.offset_reader.offsets([PART])
        self._at = 0 if stored is None else stored["next"]
        self._step = int(config["step"])

    def poll(self) -> Sequence[SourceRecord | SourceBatch] | None:
        found = [self._piece(at) for at in range(self._at, min(self._at + self._step, len(SHELF)))]
        self._at += len(found)
        return found

    def _piece(self, at: int) -> SourceRecord | SourceBatch:
        topic, key, value = SHELF[at]
        if isinstance(value, pa.Array):
            return SourceBatch(PART, {"next": at + 1}, topic, value)
        if isinstance(value, Exception):
            raise value
        return SourceRecord(PART, {"next": at + 1}, topic, value, None, key)

    def stop(self) -> None:
        STOPPED.append("task")


@pytest.fixture(autouse=True)
def _empty() -> None:
    SHELF.clear()
    STOPPED.clear()


def read(state: dict[str, Any], step: int = 2) -> list[tuple[str, Any]]:
    items = items_until_none_left(Shelf, {"step": str(step)}, state, 1)
    return [(item.topic, item.rows.to_pylist() if isinstance(item.rows, pa.Table) else item.rows) for item in items]


def test_records_are_rows_batches_are_tables_and_offsets_are_state() -> None:
    SHELF.extend(
        [
            ("a", None, {"id": 1, "deep": {"x": [Struct(SCHEMA).put("id", 5)]}}),
            ("a", None, Struct(SCHEMA).put("id", 2)),
            ("b", None, "text"),
            ("a", {"id": 1}, None),
            ("a", None, pa.array([{"id": 3}, {"id": 4}])),
        ]
    )
    state: dict[str, Any] = {}
    assert read(state) == [
        ("a", [{"id": 1, "deep": {"x": [{"id": 5}]}}, {"id": 2}]),
        ("b", [{"value": "text"}]),
        ("a", [{"id": 1, "_deleted": True}]),
        ("a", [{"id": 3}, {"id": 4}]),
    ]
    assert json.loads(json.dumps(state)) == {"offsets": {'{"at": "shelf"}': {"next": 5}}}
    assert STOPPED == ["task", "connector"]
    SHELF.append(("a", None, {"id": 9}))
    assert read(state) == [("a", [{"id": 9}])]


def test_a_run_that_ends_early_stops_everything_and_has_the_offset_of_what_it_gave() -> None:
    SHELF.extend(("a", None, {"id": at}) for at in range(6))
    state: dict[str, Any] = {}
    items = items_until_none_left(Shelf, {"step": "2"}, state, 1)
    next(items)
    items.close()  # type: ignore[attr-defined]
    assert STOPPED == ["task", "connector"]
    assert read(state, 6) == [("a", [{"id": at} for at in range(2, 6)])]


def test_a_configuration_is_checked_before_anything_runs() -> None:
    with pytest.raises(BadConfigError, match="step"):
        resource(Shelf, {})
    with pytest.raises(BadConfigError, match="add_map"):
        resource(Shelf, {"step": "1", "transforms": "x"})
    with pytest.raises(NotFoundError):
        resource("NoSuchSource", {})
    with pytest.raises(ConnectError, match="not a source connector"):
        resource("FileStreamSink", {})


def pipeline(folder: Path) -> Any:
    destination = dlt.destinations.filesystem(bucket_url=folder.as_uri())
    return dlt.pipeline("shelf", pipelines_dir=str(folder / "dlt"), destination=destination, dataset_name="d")


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("RUNTIME__DLTHUB_TELEMETRY", "false")
    yield
    dlt.pipeline("shelf").deactivate()


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_dlt_loads_it_and_resumes_at_the_stored_offset_even_after_a_failed_run(tmp_path: Path, quiet: None) -> None:
    SHELF.extend(("crm.rows", None, {"id": at}) for at in range(10))
    run = pipeline(tmp_path)
    run.run(resource(Shelf, {"step": "3"}), loader_file_format="parquet")
    SHELF.extend([("crm.rows", None, pa.array([{"id": 10}, {"id": 11}])), ("crm.rows", None, OSError("down"))])
    with pytest.raises(Exception, match="down"):
        run.run(resource(Shelf, {"step": "1"}), loader_file_format="parquet")
    SHELF.pop()
    pipeline(tmp_path).run(resource(Shelf, {"step": "1"}), loader_file_format="parquet")
    files = (tmp_path / "d" / "crm_rows").glob("*.parquet")
    assert sorted(id for file in files for id in pq.read_table(file)["id"].to_pylist()) == list(range(12))


def test_with_a_key_records_without_a_value_delete() -> None:
    made = resource(Shelf, {"step": "1"}, primary_key="id", name="things")
    schema = made.compute_table_schema()
    assert (made.name, schema["write_disposition"]) == ("things", "merge")
    assert schema["columns"]["_deleted"]["hard_delete"] is True
