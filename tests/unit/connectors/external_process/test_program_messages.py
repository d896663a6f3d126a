"""Catalogs, selections and states of Singer and Airbyte as trees."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_connect_rt.connectors.external_process import airbyte_source as airbyte
from spark_connect_rt.connectors.external_process import singer_source as singer
from spark_connect_rt.connectors.external_process.program import PrivateFolder, masking, texts_in
from spark_connect_rt.connectors.external_process.program_output import SHARED, STATE, Intake
from spark_connect_rt.connectors.external_process.program_settings import (
    chosen,
    merged,
    named_program,
    plain_names,
    shares,
)
from spark_connect_rt.connectors.external_process.singer_source import CONFIG as SINGER
from spark_connect_rt.connectors.external_process.singer_source import SingerTap
from spark_connect_rt.connectors.external_process.stream_rows import RowSettings
from spark_connect_rt.errors import ConnectError, DataError


def dumped(tree: Any) -> bytes:
    return json.dumps(tree).encode()


def test_singers_catalog_selects_just_the_streams_and_every_column_that_may_be() -> None:
    columns = [
        {"breadcrumb": [], "metadata": {"replication-method": "FULL_TABLE"}},
        {"breadcrumb": ["properties", "id"], "metadata": {"inclusion": "available"}},
        {"breadcrumb": ["properties", "odd"], "metadata": {"inclusion": "unsupported"}},
        {"breadcrumb": ["properties", "no"], "metadata": {"inclusion": "available", "selected": False}},
    ]
    offered = {"streams": [{"tap_stream_id": "db-a", "stream": "a", "metadata": columns}, {"stream": "b"}]}
    catalog = singer.singer_catalog(dumped(offered))
    assert catalog.streams == ("db-a", "b")
    first, second = singer.selected(catalog, ["db-a"], "INCREMENTAL", {"db-a": "id"})["streams"]
    assert [entry["metadata"].get("selected") for entry in first["metadata"]] == [True, True, None, False]
    assert first["metadata"][0]["metadata"]["replication-key"] == first["replication_key"] == "id"
    assert first["replication_method"] == "INCREMENTAL"
    assert second["metadata"][0]["metadata"]["selected"] is False
    assert "selected" not in catalog.tree["streams"][0]["metadata"][0]["metadata"]  # the catalog stays as it was
    with pytest.raises(ConnectError, match=r"no longer offers gone. It offers db-a, b"):
        singer.selected(catalog, ["gone"])
    with pytest.raises(ConnectError, match="no Singer catalog"):
        singer.singer_catalog(b"not this")


def test_singers_state_is_kept_by_stream_and_joined_again() -> None:
    state = {"bookmarks": {"a": {"at": 1}, "b": {"at": 2}}, "currently_syncing": "b"}
    parts = singer.parts_of(state, ["a", "b", "c"])
    assert parts == {"a": {STATE: '{"at":1}'}, "b": {STATE: '{"at":2}'}, "c": {STATE: "{}"}}
    assert singer.joined_state(parts) == ({"bookmarks": {"a": {"at": 1}, "b": {"at": 2}}}, [])
    assert singer.joined_state({"a": {STATE: None}}) == (None, [])
    with pytest.raises(DataError, match="not an object"):
        singer.parts_of([1], ["a"])


def test_singer_state_without_a_stream_is_kept_with_each_stream() -> None:
    old = {"orders": "2026-01-01", "bookmarks": {"parent": {"at": 5}}}
    parts = singer.parts_of(old, ["a", "b"])
    assert singer.joined_state(parts) == (old, [])
    other = singer.parts_of({"orders": "2025-01-01"}, ["c"])
    state, disputed = singer.joined_state({**parts, **other})
    assert (state, disputed) == ({"bookmarks": {"parent": {"at": 5}}}, ["orders"])


def test_batches_of_singer_are_tables_or_objects(tmp_path: Path) -> None:
    lines, columns = tmp_path / "a b.jsonl.gz", tmp_path / "b.parquet"
    lines.write_bytes(gzip.compress(b'{"id": 1}\n\n{"id": 2}\n'))
    pq.write_table(pa.table({"id": [3]}), columns)
    message = {"encoding": {"format": "jsonl", "compression": "gzip"}, "manifest": [lines.as_uri()]}
    assert list(singer.batch_tables(message)) == [(lines, [{"id": 1}, {"id": 2}])]
    message = {"encoding": {"format": "parquet"}, "manifest": [columns.as_uri()]}
    ((path, table),) = singer.batch_tables(message)
    assert (path, table.to_pylist()) == (columns, [{"id": 3}])  # type: ignore[union-attr]
    for encoding, address, said in (
        ({"format": "jsonl"}, "s3://bucket/x", "on another machine cannot be read: s3://bucket"),
        ({"format": "jsonl"}, f"{tmp_path}/gone", "cannot be read"),
        ({"format": "avro"}, columns.as_uri(), "format avro"),
        ({"format": "jsonl", "compression": "gzip"}, columns.as_uri(), "cannot be read"),
    ):
        with pytest.raises(DataError, match=said):
            list(singer.batch_tables({"encoding": encoding, "manifest": [address]}))


def airbyte_streams(*streams: dict[str, Any]) -> bytes:
    said = [{"type": "LOG"}, {"type": "CATALOG", "catalog": {"streams": list(streams)}}]
    return b"no message\n" + b"\n".join(map(dumped, said))


def test_airbytes_catalog_is_incremental_where_a_stream_can_be() -> None:
    both = ["full_refresh", "incremental"]
    catalog = airbyte.airbyte_catalog(
        airbyte_streams(
            {"name": "own", "namespace": "public", "supported_sync_modes": both, "source_defined_cursor": True},
            {"name": "ours", "supported_sync_modes": both},
            {"name": "whole", "source_defined_primary_key": [["id"]]},
            {"name": "lost", "supported_sync_modes": both},
        )
    )
    assert catalog.streams == ("public.own", "ours", "whole", "lost")
    names = ["public.own", "ours", "whole", "lost"]
    made = airbyte.configured(catalog, names, "incremental", {"ours": "at"}, {"ours": ["a", "b"]})["streams"]
    found = [(stream["sync_mode"], stream["cursor_field"], stream["primary_key"]) for stream in made]
    assert found == [
        ("incremental", [], []),
        ("incremental", ["at"], [["a"], ["b"]]),
        ("full_refresh", [], [["id"]]),
        ("full_refresh", [], []),  # no one says by what it is incremental
    ]
    with pytest.raises(ConnectError, match="no longer offers gone"):
        airbyte.configured(catalog, ["gone"], "incremental", {}, {})


def test_a_discovery_without_a_catalog_says_why() -> None:
    error = {"failure_type": "config_error", "message": "no such host", "internal_message": "x"}
    trace = {"type": "TRACE", "trace": {"type": "ERROR", "error": error}}
    with pytest.raises(ConnectError, match=r"no Airbyte catalog: config_error: no such host \(x\)"):
        airbyte.airbyte_catalog(dumped(trace))
    assert airbyte.is_config_error(trace)


def stream_state(name: str, at: int, namespace: str | None = None) -> dict[str, Any]:
    return {"stream_descriptor": {"name": name, "namespace": namespace}, "stream_state": {"at": at}}


def test_airbytes_states_by_stream_for_all_and_in_one_piece_come_back_as_they_were() -> None:
    catalog = airbyte.airbyte_catalog(airbyte_streams({"name": "a", "namespace": "n"}, {"name": "b"}))
    names = ["n.a", "b"]
    parts = airbyte.parts_of({"type": "STREAM", "stream": stream_state("a", 1, "n")}, names)
    assert parts == {"n.a": {STATE: '{"at":1}'}}
    state, _ = airbyte.input_state(parts, catalog)
    assert state == [{"type": "STREAM", "stream": stream_state("a", 1, "n")}]
    whole = {"shared_state": {"lsn": 7}, "stream_states": [stream_state("a", 1, "n")]}
    parts = airbyte.parts_of({"type": "GLOBAL", "global": whole}, names)
    assert parts["b"] == {STATE: None, SHARED: '{"state":{"lsn":7},"type":"GLOBAL"}'}
    assert airbyte.input_state(parts, catalog) == ([{"type": "GLOBAL", "global": whole}], False)
    old = airbyte.parts_of({"data": {"all": 1}}, names)
    assert airbyte.input_state(old, catalog) == ({"all": 1}, False)
    assert airbyte.input_state({}, catalog) == (None, False)


def test_streams_that_differ_in_their_shared_state_are_read_again() -> None:
    catalog = airbyte.airbyte_catalog(airbyte_streams({"name": "a"}, {"name": "b"}))
    state, other = ({"shared_state": {"lsn": lsn}, "stream_states": []} for lsn in (7, 8))
    offsets = {
        **airbyte.parts_of({"type": "GLOBAL", "global": state}, ["a"]),
        **airbyte.parts_of({"type": "GLOBAL", "global": other}, ["b"]),
    }
    assert airbyte.input_state(offsets, catalog) == (None, True)


def test_streams_are_chosen_by_patterns_and_shared_equally() -> None:
    streams = ["a1", "a2", "b1", "secret"]
    assert chosen(streams, ["a*", "b1", "!a2"]) == ["a1", "b1"]
    assert chosen(streams, ["!secret"]) == ["a1", "a2", "b1"]
    assert shares(chosen(streams, ["*"]), 3) == [["a1", "secret"], ["a2"], ["b1"]]
    assert shares(["x"], 5) == [["x"]]
    assert plain_names(["a", "b.c"])
    assert not plain_names(["a", "!b"])


def test_settings_are_merged_deeply_and_a_requirement_names_its_program() -> None:
    assert merged({"a": {"b": 1, "c": 2}, "d": 3}, {"a": {"b": 4}, "e": 5}) == {"a": {"b": 4, "c": 2}, "d": 3, "e": 5}
    for requirement in ("tap-x", "tap-x==1.2", "tap-x[extra]~=1", "tap-x @ file:///x.whl"):
        assert named_program([requirement]) == "tap-x"


def test_secrets_are_masked_and_files_are_their_owners_alone() -> None:
    config = {"url": "http://x", "auth": {"user": "someone"}, "api_keys": ["k-123456"], "password": "pw"}
    mask = masking(texts_in(config, named_only=True))
    assert mask("someone at http://x with k-123456, pw") == "[hidden] at http://x with [hidden], pw"
    folder = PrivateFolder("test-")
    path = folder.write_json("config.json", config)
    assert (path.stat().st_mode & 0o777, folder.path.stat().st_mode & 0o777) == (0o600, 0o700)
    assert json.loads(folder.write_json("config.json", {}).read_text()) == {}
    folder.remove()
    assert not folder.path.exists()


def test_a_preview_leaves_the_files_of_batches_where_they_are(tmp_path: Path) -> None:
    lines = tmp_path / "a.jsonl"
    lines.write_bytes(b'{"id": 1}\n')
    batch = {"encoding": {"format": "jsonl"}, "manifest": [lines.as_uri()], "stream": "orders", "type": "BATCH"}
    values = SINGER.parse({"topic": "t", "singer.value": "tree"})
    taken = Intake(["orders"], {}, "t", RowSettings(structs=False), lambda *_: None)
    for previewed in (True, False):
        tap = SingerTap(values)
        tap.previewed = previewed
        tap.on_message(batch, taken)
        assert lines.exists() is previewed
        tap.close()
    assert len(taken.take()) == 2
