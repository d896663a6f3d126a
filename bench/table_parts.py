"""The parts of a table sink that cost CPU: index of keys, changes of records, Parquet files.

No Kafka, no catalog: each part in its own process, on values that are made before the clock starts, CPU seconds of the
whole process. ``index``: a table of 10,000,000 keys is indexed, then 10 commits of 50,000 upserts, 2 % of them new.
``changes``: rows of 10 columns as plain values and as Debezium's envelopes, by columns and by records. ``files``: rows
of 10 columns, and texts of 100 random bytes. The limit is pyarrow's own writer, as it writes without settings.
"""

from __future__ import annotations

import itertools
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs

from bench.lab import Lab
from bench.report import Result, Run
from bench.table_data import COLUMNS, ENVELOPE, KEY, NAMES, ROW, UTC, batches, rows, struct_of_rows, texts
from spark_connect_rt.api.records import SinkBatch, SinkRecord
from spark_connect_rt.connectors.lakehouse.changes import (
    ChangeForm,
    ChangeRules,
    changes_of_batch,
    changes_of_records,
)
from spark_connect_rt.connectors.lakehouse.data_files import FileSettings, FileTarget, PartitionField, write_data_files
from spark_connect_rt.connectors.lakehouse.key_index import KeyIndex, encode_keys, positions_of
from spark_connect_rt.records.pipeline.connect_values import connect_values

TARGET_UPSERTS, TARGET_STRINGS, TARGET_ROWS = 150_000, 400_000, 250_000
PARTS = ("index", "index_int64", "changes", "files")


def run(lab: Lab, short: bool) -> Result:
    """Measure each part in its own process, three times."""
    target = f">={TARGET_UPSERTS:,} upserts, {TARGET_STRINGS:,} texts, {TARGET_ROWS:,} rows"
    result = Result("table_parts", "upserts of 10 columns per CPU s, of their parts", "upserts", True, target)
    for _ in range(1 if short else 3):
        figures: dict[str, Any] = {}
        for part in PARTS:
            figures |= _measured(part, short)
        upsert = (figures["index_keys"], figures["envelope_columns"], figures["rows_10_columns"])
        figures["upserts"] = round(1 / sum(1 / rate for rate in upsert))
        limit = {name.removeprefix("limit_"): figures.pop(name) for name in list(figures) if name.startswith("limit_")}
        result.runs += [Run("ours", figures), Run("limit", limit)]
    result.conclude()
    ours = [result.median("ours", name) or 0.0 for name in ("upserts", "rows_1_text", "rows_10_columns")]
    wanted = (TARGET_UPSERTS, TARGET_STRINGS, TARGET_ROWS)
    result.met = all(found >= least for found, least in zip(ours, wanted, strict=True))
    result.notes.append("the upserts are computed from the parts; a commit and its delete files are not in them")
    return result


def _measured(part: str, short: bool) -> dict[str, Any]:
    command = [sys.executable, "-m", "bench.table_parts", part, "short" if short else "long"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[1])
    assert done.returncode == 0, done.stderr[-2000:]
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


def _rate(count: int, work: Callable[[], Any]) -> int:
    """Return how many a CPU second, of the best of three: the machine does other things, too."""
    best = float("inf")
    for _ in range(3):
        began = time.process_time()
        work()
        best = min(best, time.process_time() - began)
    return round(count / best)


def _index(short: bool, *, integers: bool) -> dict[str, Any]:
    keys, batch = (100_000, 5_000) if short else (10_000_000, 50_000)

    def column(numbers: np.ndarray[Any, Any]) -> pa.Array:
        if integers:
            return encode_keys([pa.array(numbers * 7)])
        padded = pc.utf8_lpad(pa.array(numbers).cast(pa.string()), 10, "0")
        return encode_keys([pc.binary_join_element_wise("customer-", padded, "")])

    step = keys // 20
    parts = [
        (column(np.arange(first, first + step)), positions_of(first // step, np.arange(step)))
        for first in range(0, keys, step)
    ]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    index = KeyIndex(Path(tempfile.gettempdir()), integers=integers)
    began = time.process_time()
    assert index.build(parts) == 0
    start_s = time.process_time() - began
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10
    random = np.random.default_rng(1)
    elapsed, fresh = 0.0, batch // 50
    for number in range(10):
        old = random.choice(keys, batch - fresh, replace=False)
        changed = column(np.concatenate([old, np.arange(fresh) + keys + number * fresh]))
        places = positions_of(100 + number, np.arange(batch))
        began = time.process_time()
        index.swap(changed, places)
        elapsed += time.process_time() - began
    assert len(index) == keys + 10 * fresh
    name = "index_int64" if integers else "index_keys"
    found: dict[str, Any] = {name: round(10 * batch / elapsed), f"{name}_start_s": round(start_s, 2)}
    found[f"{name}_bytes"] = round(index.memory_bytes / len(index), 1)
    found[f"{name}_disk"] = round(index.disk_bytes / len(index), 1)
    found[f"{name}_start_mib"] = grown
    index.close()
    return found


def _batches(count: int, form: ChangeForm) -> list[SinkBatch]:
    row = struct_of_rows(rows(count))
    key = pa.StructArray.from_arrays([row.field("id")], ["id"])
    values, schema = row, ROW
    if form is ChangeForm.DEBEZIUM:
        ops = pa.array(["c", "u"]).take(pa.array(np.arange(count) % 2))
        values = pa.StructArray.from_arrays([pa.nulls(count, row.type), row, ops], ["before", "after", "op"])
        schema = ENVELOPE
    whole = SinkBatch("t", 0, pa.array(np.arange(count)), values, schema, key, KEY)
    return batches(whole)


def _changes(short: bool) -> dict[str, Any]:
    count = 10_000 if short else 200_000
    found: dict[str, Any] = {}
    for name, form in (("plain", ChangeForm.PLAIN), ("envelope", ChangeForm.DEBEZIUM)):
        given, rules = _batches(count, form), ChangeRules(form)
        records = [_records(batch) for batch in given]
        by_columns = [changes_of_batch(batch, rules) for batch in given]
        by_rows = [part for run in records for part in changes_of_records(run, rules)]
        for columns, row in zip(by_columns, by_rows, strict=True):
            assert columns is not None
            assert columns.table.equals(row.table)
        found[f"{name}_columns"] = _rate(
            count, lambda given=given, rules=rules: [changes_of_batch(batch, rules) for batch in given]
        )
        found[f"{name}_records"] = _rate(
            count, lambda given=records, rules=rules: [changes_of_records(run, rules) for run in given]
        )
    return found


def _records(batch: SinkBatch) -> list[SinkRecord]:
    values = connect_values(batch.values, batch.value_schema)
    keys = connect_values(batch.keys, batch.key_schema)
    offsets = batch.offsets.to_pylist()
    return [
        SinkRecord("t", 0, offset, value, batch.value_schema, key, batch.key_schema)
        for offset, value, key in zip(offsets, values, keys, strict=True)
    ]


def _files(short: bool) -> dict[str, Any]:
    count = 10_000 if short else 300_000
    kinds = [pa.timestamp("us", "UTC") if kind == UTC else kind for *_, kind in COLUMNS]
    columns = [column.cast(kind) for column, kind in zip(rows(count), kinds, strict=True)]
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        numbers = itertools.count()
        target = FileTarget(fs.LocalFileSystem(), folder, lambda: str(next(numbers)))
        path = f"{folder}/limit.parquet"

        def write(table: pa.Table, partitioning: Sequence[PartitionField] = ()) -> int:
            return _rate(count, lambda: write_data_files(table, partitioning, target, FileSettings()))

        def limit(table: pa.Table) -> int:
            return _rate(count, lambda: pq.write_table(table, path, compression="zstd", store_schema=False))

        text, table = _with_ids([texts(count)], ["text"]), _with_ids(columns, NAMES)
        found |= {"rows_1_text": write(text), "rows_10_columns": write(table)}
        found |= {"limit_rows_1_text": limit(text), "limit_rows_10_columns": limit(table)}
        found["rows_4_regions"] = write(table, [PartitionField("region", "identity", "region")])
        found["rows_16_buckets"] = write(table, [PartitionField("id", "bucket[16]", "id_bucket")])
    return found


def _with_ids(columns: list[pa.Array], names: Sequence[str]) -> pa.Table:
    fields = [
        pa.field(name, column.type, metadata={"PARQUET:field_id": str(number)})
        for number, (name, column) in enumerate(zip(names, columns, strict=True), 1)
    ]
    return pa.table(columns, schema=pa.schema(fields))


def main(part: str, short: bool) -> None:
    """Measure one part and print its figures as JSON."""
    pa.set_cpu_count(1)
    works: dict[str, Callable[[], dict[str, Any]]] = {
        "index": lambda: _index(short, integers=False),
        "index_int64": lambda: _index(short, integers=True),
        "changes": lambda: _changes(short),
        "files": lambda: _files(short),
    }
    print(json.dumps(works[part]()))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2] == "short")
