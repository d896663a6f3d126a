"""Benchmarks of table sinks: their ground truth notices lost, repeated and wrong rows."""

from __future__ import annotations

import urllib.request
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from bench.lake_forms import ContentRegistry, contents_of, encoded, row_converters
from bench.table_data import NAMES, ROW, KeyedHistory, rows, struct_of_rows
from bench.table_sink import figures_of
from spark_connect_rt.records.pipeline.connect_values import connect_values

HASH = "hash(id, version)"
TABLE = pa.table(rows(50), names=list(NAMES))


def test_contents_do_not_depend_on_the_order_of_rows() -> None:
    session = duckdb.connect()
    turned = TABLE.take(list(range(49, -1, -1)))
    assert contents_of("given", HASH, session, given=TABLE) == contents_of("given", HASH, session, given=turned)


@pytest.mark.parametrize(
    "changed",
    [
        TABLE.slice(1),
        pa.concat_tables([TABLE, TABLE.slice(0, 1)]),
        pa.concat_tables([TABLE.slice(1), TABLE.slice(1, 1)]),
    ],
    ids=["lost", "repeated", "lost and repeated"],
)
def test_contents_notice_lost_and_repeated_rows(changed: pa.Table) -> None:
    session = duckdb.connect()
    assert contents_of("given", HASH, session, given=TABLE) != contents_of("given", HASH, session, given=changed)


def test_history_knows_the_rows_that_a_dictionary_has_after_it() -> None:
    history = KeyedHistory(1_000, 500)
    model = {key: key for columns in history.first_rows() for key in columns[NAMES.index("id")].to_pylist()}
    for _ in range(5):
        changes = history.next()
        for key, version, gone in zip(changes.ids, changes.versions, changes.deletes, strict=True):
            if gone:
                model.pop(int(key), None)
            else:
                model[int(key)] = int(version)
    assert history.live() == (len(model), sum(model), sum(model.values()))
    assert len(model) != 1_000
    assert max(model) >= 1_000, "a key is new"


@pytest.mark.parametrize("form", ["json", "json_schema", "avro"])
def test_payloads_of_each_form_are_the_rows(form: str) -> None:
    values = struct_of_rows(rows(50))
    with ContentRegistry() as registry:
        converter = row_converters(registry.url)[form]
        payloads = encoded(converter, "t", values).to_pylist()
        found = [converter.to_connect_data("t", payload).value for payload in payloads]
    if form == "json":
        rows_found = [{**row, "at": datetime.fromtimestamp(row["at"] / 1000, UTC)} for row in found]
    else:
        rows_found = [struct.to_dict() for struct in found]
    assert rows_found == [struct.to_dict() for struct in connect_values(values, ROW)]


def test_registry_answers_apicurios_client() -> None:
    with ContentRegistry() as registry:
        request = urllib.request.Request(
            f"{registry.url}/subjects/t-value/versions",
            b'{"schema": "\\"string\\""}',
            {"Content-Type": "application/json"},
        )
        assert urllib.request.urlopen(request).read() == b'{"id": 1}'
        by_id = f"{registry.url}/apis/registry/v2/ids/contentIds/1"
        assert urllib.request.urlopen(by_id).read() == b'"string"'
        assert urllib.request.urlopen(f"{by_id}/references").read() == b"[]"


@pytest.mark.parametrize(
    ("part", "table_format"), [("upserts", "iceberg"), ("upserts", "delta"), ("commits", "iceberg")]
)
def test_parts_compare_the_rows_and_return_figures(part: str, table_format: str, tmp_path: Path) -> None:
    figures = figures_of(part, tmp_path, table_format, short=True)
    assert figures["upserts" if part == "upserts" else "commit_1000_ms"] > 0
