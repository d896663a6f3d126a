"""A transformation of a real Java plug-in, Debezium's ExtractNewRecordState, serves a Python source."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from spark_connect_rt.api.data.schema import INT64, STRING, struct_of
from spark_connect_rt.api.data.struct import Struct
from spark_connect_rt.api.records import SourceRecord
from spark_connect_rt.engine.java_host.stages.transformations import JavaTransformation
from spark_connect_rt.engine.task_runner import JavaCode
from spark_connect_rt.plugins.bundled_plugins import bundled_plugins
from spark_connect_rt.records.pipeline.source_pipeline import SourcePipeline
from tests.support.java_plugins import DEBEZIUM_POSTGRES, plugin_folder

UNWRAP = "io.debezium.transforms.ExtractNewRecordState"
ROW = replace(struct_of({"id": INT64, "name": STRING}, optional=True), name="shop.items.Value")
ENVELOPE = replace(struct_of({"before": ROW, "after": ROW, "op": STRING}), name="shop.items.Envelope")
CONFIG = {
    "key.converter": "StringConverter",
    "value.converter": "JsonConverter",
    "value.converter.schemas.enable": "false",
    "transforms": "unwrap",
    "transforms.unwrap.type": UNWRAP,
    "transforms.unwrap.delete.tombstone.handling.mode": "drop",
    "transforms.unwrap.add.headers": "op",
}


def change(op: str, before: str | None, after: str | None) -> SourceRecord:
    rows = {"before": before, "after": after}
    envelope: dict[str, Any] = {
        name: None if text is None else Struct(ROW, {"id": 1, "name": text}) for name, text in rows.items()
    }
    value = Struct(ENVELOPE, {**envelope, "op": op})
    return SourceRecord({"p": 1}, {"o": op}, "items", key="k", value=value, value_schema=ENVELOPE)


def test_debezium_unwraps_records_of_a_python_source_before_they_are_written(tmp_path: Path) -> None:
    folder = plugin_folder(tmp_path, "postgres", DEBEZIUM_POSTGRES)
    code = JavaCode((str(folder),), heap="96m", options=("-XX:TieredStopAtLevel=1",))
    unwrap = type("Unwrap", (JavaTransformation,), {"java_class": UNWRAP, "java_code": code})
    bundled = bundled_plugins()
    pipeline = SourcePipeline.from_config(CONFIG, {}, lambda name: unwrap if name == UNWRAP else bundled.class_of(name))
    plain = SourceRecord({"p": 1}, {"o": "plain"}, "items", key="k", value={"no": "envelope"})
    changes = [change("c", None, "new"), change("u", "new", "newer"), change("d", "newer", None), plain]
    (converted,) = pipeline.convert(changes)
    rows = converted.batch.to_pylist()
    assert [json.loads(row["value"]) for row in rows] == [
        {"id": 1, "name": "new"},
        {"id": 1, "name": "newer"},
        {"no": "envelope"},
    ]
    assert [[(header["key"], header["value"]) for header in row["headers"] or ()] for row in rows] == [
        [("__op", b"c")],
        [("__op", b"u")],
        [],
    ]
    assert converted.source_offsets == (({"p": 1}, {"o": "plain"}),), "what was dropped is behind it, too"
    pipeline.close()
