"""JsonConverter with its schema, 10 columns, both ways, and a chain of 4 transformations; beside Java's own classes.

No Kafka, no worker: the classes alone, each side in a process of its own, warmed up, records per CPU second of the
whole process. Ours take Arrow batches of a source and batches of consumed records, as the engine hands them over, with
its executors' garbage collection; ``rows_*`` is one record at a time. A run is ``exact`` when both sides wrote the same
bytes and read them back.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyspark

from bench.lab import Lab
from bench.report import Result, Run
from spark_connect_rt.api.data import schema as s
from spark_connect_rt.api.data.schema_builder import SchemaBuilder
from spark_connect_rt.api.data.struct import Struct
from spark_connect_rt.api.records import SourceBatch, SourceRecord
from spark_connect_rt.base.cache import resolve_jars
from spark_connect_rt.engine.executor.daemon import collect_rarely
from spark_connect_rt.engine.startup.java_home import find_java
from spark_connect_rt.plugins.bundled_plugins import bundled_plugins
from spark_connect_rt.records.converters.json import JsonConverter
from spark_connect_rt.records.pipeline.transformation_chain import TransformationChain
from tests.support.java_connect import COORDINATES

TARGET = 2.0
SOURCE = Path(__file__).parent / "java" / "ConvertBench.java"
COMPILER = "org.codehaus.janino.SimpleCompiler"  # among Spark's jars: a JDK is not needed
TOPIC = "lines"
BATCH = 2_000
_JAVA = "org.apache.kafka.connect.transforms"
CHAIN = {
    "transforms": "insert,mask,replace,route",
    "transforms.insert.type": f"{_JAVA}.InsertField$Value",
    "transforms.insert.static.field": "by",
    "transforms.insert.static.value": "bench",
    "transforms.mask.type": f"{_JAVA}.MaskField$Value",
    "transforms.mask.fields": "name",
    "transforms.replace.type": f"{_JAVA}.ReplaceField$Value",
    "transforms.replace.exclude": "note",
    "transforms.replace.renames": "city:town",
    "transforms.route.type": f"{_JAVA}.RegexRouter",
    "transforms.route.regex": "li(.*)",
    "transforms.route.replacement": "pi$1",
}
FIELDS = (
    ("id", s.INT32, pa.int32()),
    ("total", s.INT64, pa.int64()),
    ("price", s.FLOAT64, pa.float64()),
    ("rate", s.FLOAT32, pa.float32()),
    ("ok", s.BOOLEAN, pa.bool_()),
    ("name", s.STRING, pa.string()),
    ("city", s.STRING, pa.string()),
    ("note", s.OPTIONAL_STRING, pa.string()),
    ("count", s.OPTIONAL_INT32, pa.int32()),
    ("code", s.STRING, pa.string()),
)
ROW = SchemaBuilder.struct().name("row")
for _name, _schema, _ in FIELDS:
    ROW.field(_name, _schema)
SCHEMA = ROW.build()


def run(lab: Lab, short: bool) -> Result:
    """Java beside itself, then Java, ours and the limit in turn."""
    rows, warm, timed, times = (200, 1, 1, 1) if short else (20_000, 40, 40, 3)
    result = Result("convert", "records per CPU second, JSON with schema written and read", "both", True, f">={TARGET}")
    if not short:
        result.runs += [_run("java (control)", rows, warm, timed) for _ in range(2)]
    for _ in range(times):
        sides = ("java", "limit") if lab.java_only else ("java", "ours", "limit")
        result.runs += [_run(who, rows, warm, timed) for who in sides]
    _compare(result)
    result.conclude()
    ratios = {
        figure: result.ratio_of(figure)
        for figure in ("write", "read", "chain", "rows_write", "rows_read", "rows_chain")
    }
    for figure, ratio in ratios.items():
        result.note_ratio(figure, ratio)
    targets = [result.ratio, ratios["chain"]]
    result.met = all(ratio is not None and ratio >= TARGET for ratio in targets) and _all_exact(result)
    return result


def _run(who: str, rows: int, warm: int, timed: int) -> Run:
    command = _java_command() if who.startswith("java") else [sys.executable, "-m", "bench.convert", who]
    done = subprocess.run([*command, str(rows), str(warm), str(timed)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    if who.startswith("java"):  # Java has one way only
        figures |= {f"rows_{name}": figures[name] for name in ("write", "read", "chain")}
    return Run(who, {"both": round(1 / (1 / figures["write"] + 1 / figures["read"])), **figures})


def _compare(result: Result) -> None:
    """Hold what was written beside Java's, then leave the digests out of the table."""
    wanted = {name: result.runs[0].figures[name] for name in ("written", "transformed")}
    for turn in result.runs:
        found = {name: turn.figures.pop(name, wanted[name]) for name in wanted}
        turn.figures["exact"] = found == wanted


def _all_exact(result: Result) -> bool:
    return all(turn.figures["exact"] for turn in result.runs)


def _java_command() -> list[str]:
    spark_jars = Path(pyspark.__file__).parent / "jars"
    compiler = [*spark_jars.glob("*compiler-*.jar"), *spark_jars.glob("janino-*.jar")]
    class_path = os.pathsep.join(str(jar) for jar in [*resolve_jars(COORDINATES), *compiler])
    return [str(find_java().executable), "-Dlog4j2.level=error", "-cp", class_path, COMPILER, str(SOURCE), SOURCE.stem]


def values(rows: int) -> list[dict[str, Any]]:
    """Return the rows; ConvertBench.java makes the same."""
    return [
        {
            "id": at,
            "total": at * 1_000_003,
            "price": at * 0.25 + 0.125,
            "rate": at % 100 / 4,
            "ok": at % 2 == 0,
            "name": f"name-{at}",
            "city": "Amsterdam",
            "note": None if at % 5 == 0 else "a note of some length",
            "count": at % 7,
            "code": f"{at:08x}",
        }
        for at in range(rows)
    ]


def ours(rows: int, warm: int, timed: int) -> dict[str, Any]:
    """Return our figures and digests."""
    collect_rarely()
    converter, one_by_one = JsonConverter(), JsonConverter()
    chain = TransformationChain.from_config(CHAIN, bundled_plugins().class_of)
    column = pa.array(values(rows), pa.struct([(name, kind) for name, _, kind in FIELDS]))
    batch = SourceBatch({"file": "f"}, {"position": rows}, TOPIC, column, SCHEMA)
    written = _bytes_of(converter, batch)
    first = converter.to_connect_data(TOPIC, written[0])

    def read() -> None:
        for at in range(0, rows, BATCH):  # as they are consumed
            assert converter.values_to_connect_data(TOPIC, written[at : at + BATCH]), "the records went one by one"

    figures: dict[str, Any] = {
        "write": _rate(lambda: converter.column_from_connect_data(TOPIC, SCHEMA, column), rows, warm, timed),
        "read": _rate(read, rows, warm, timed),
        "chain": _rate(lambda: chain.apply_batch(batch), rows, warm, timed),
    }
    structs = [Struct(SCHEMA, row) for row in values(rows)]
    records = [
        SourceRecord({"file": "f"}, {"position": at}, TOPIC, struct, SCHEMA) for at, struct in enumerate(structs)
    ]
    few = max(1, timed // 8)  # one at a time is slow, and needs no warming
    write, load = one_by_one.from_connect_data, one_by_one.to_connect_data
    figures |= {
        "rows_write": _rate(lambda: [write(TOPIC, SCHEMA, struct) for struct in structs], rows, 1, few),
        "rows_read": _rate(lambda: [load(TOPIC, payload) for payload in written], rows, 1, few),
        "rows_chain": _rate(lambda: [chain.apply(record) for record in records], rows, 1, few),
    }
    found = converter.values_to_connect_data(TOPIC, written)
    assert found is not None, "the records went one by one"
    assert list(found[1]) == structs == [load(TOPIC, payload).value for payload in written]
    assert first.value == structs[0]
    assert written == [write(TOPIC, SCHEMA, struct) for struct in structs]
    changed = chain.apply_batch(batch)
    assert changed is not None, "the batch went row by row"
    topic = changed.topic.encode()
    transformed = _bytes_of(converter, changed)
    return {
        **figures,
        "written": hashlib.sha256(b"".join(written)).hexdigest(),
        "transformed": hashlib.sha256(b"".join(topic + payload for payload in transformed)).hexdigest(),
    }


def _bytes_of(converter: JsonConverter, batch: SourceBatch) -> list[bytes]:
    column = converter.column_from_connect_data(batch.topic, batch.value_schema, batch.values)
    assert column is not None, "the batch went row by row"
    found: list[bytes] = column.cast(pa.binary()).to_pylist()
    return found


def limit(rows: int, warm: int, timed: int) -> dict[str, Any]:
    """Return what orjson alone does with the payloads: neither schema, nor envelope, nor Struct."""
    trees = values(rows)
    written = [orjson.dumps(tree) for tree in trees]
    return {
        "write": _rate(lambda: [orjson.dumps(tree) for tree in trees], rows, warm, timed),
        "read": _rate(lambda: [orjson.loads(payload) for payload in written], rows, warm, timed),
    }


def _rate(once: Callable[[], Any], rows: int, warm: int, timed: int) -> int:
    for _ in range(warm):
        once()
    begun = time.process_time()
    for _ in range(timed):
        once()
    return round(rows * timed / max(time.process_time() - begun, 1e-6))


if __name__ == "__main__":
    print(json.dumps({"ours": ours, "limit": limit}[sys.argv[1]](*map(int, sys.argv[2:]))))
