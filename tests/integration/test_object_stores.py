"""A real S3 server: files that are created once, the object store sink under faults, and tables on s3://."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Iterator, Mapping
from io import BytesIO
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog.sql import SqlCatalog

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.connectors.file_stores import Note, RemoteStore, open_store
from spark_connect_rt.connectors.files.delimited_file_source import DelimitedFileSourceConnector
from spark_connect_rt.connectors.files.directory_source import DirectorySourceConnector, checked
from spark_connect_rt.connectors.lakehouse.delta_sink import DeltaSinkConnector
from spark_connect_rt.connectors.lakehouse.iceberg_sink import IcebergSinkConnector
from spark_connect_rt.connectors.object_store import sink_task
from spark_connect_rt.connectors.object_store.sink_connector import ObjectStoreSinkConnector
from spark_connect_rt.errors import BadConfigError, ConnectError, RetriableError
from spark_connect_rt.testing.connector_harness import SourceHarness
from spark_connect_rt.testing.sink_harness import SinkHarness
from tests.support.s3_server import KEY, SECRET, S3Server
from tests.unit.connectors.lakehouse.settling import settle

PLACE = TopicPartition("orders", 0)
JSON = {"value.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter.schemas.enable": "false"}


def sink_config(s3: S3Server, root: str, **changed: str) -> dict[str, str]:
    fields = {"partitioner.class": "field", "partition.field.name": "kind", "flush.size": "4"}
    return {
        "name": "objects",
        "topics": "orders",
        "path": root,
        "format.class": "jsonl",
        "rotate.schedule.interval.ms": "-1",
        **fields,
        **s3.config,
        **JSON,
        **changed,
    }


def numbers(s3: S3Server, root: str) -> list[int]:
    store = open_store(f"{root}/topics/orders", s3.config)
    files = [found.key for kind in "ab" for found in store.files(f"kind={kind}")]
    lines = [line for key in files for line in store.read(key, 0, 1 << 30).splitlines()]
    return sorted(json.loads(line)["n"] for line in lines)


def send(sink: SinkHarness, count: int) -> None:
    first = sink.topics.end(PLACE)
    for n in range(first, first + count):
        sink.send("orders", {"n": n, "kind": "ab"[n % 2]})


def test_file_is_created_once_with_its_note_and_can_be_moved(s3: S3Server) -> None:
    store = open_store(s3.bucket("created") + "/root", s3.config)
    assert store.create("t/a b+0.json", b"abc", {"end": 1}) is None
    assert store.create("t/a b+0.json", b"other", {"end": 1}) is None
    assert store.create("t/a b+0.json", b"other", {"end": 2}) == {"end": 1}
    (found,) = store.files("t")
    assert (found.key, found.size_bytes, store.read(found.key, 1, 10)) == ("t/a b+0.json", 3, b"bc")
    assert store.find("t/none") is None
    store.move(found.key, "done/x")
    store.move(found.key, "done/x")
    assert (store.files("t"), [moved.key for moved in store.files("done")]) == ([], ["done/x"])
    store.delete("done/x")
    store.delete("done/x")
    assert store.files("done") == []


@pytest.mark.parametrize(
    ("changed", "bucket", "sentence"),
    [
        ({}, "nowhere", "the bucket does not exist. Create it, or correct its name"),
        ({"aws.access.key.id": "x"}, "errors", "the access key is unknown. Check aws.access.key.id"),
        ({"aws.secret.access.key": "x"}, "errors", "the secret does not belong to the access key"),
    ],
)
def test_errors_say_what_to_change(s3: S3Server, changed: Mapping[str, str], bucket: str, sentence: str) -> None:
    (s3.buckets / "errors").mkdir(exist_ok=True)
    store = open_store(f"s3://{bucket}", {**s3.config, **changed})
    for call in (lambda: store.files(""), lambda: store.create("a", b"", {})):
        with pytest.raises(ConnectError, match=sentence) as raised:
            call()
        assert not isinstance(raised.value, RetriableError)
    findings = ObjectStoreSinkConnector().outside_checks(sink_config(s3, f"s3://{bucket}", **changed))[0]()
    assert [(found.level.value, sentence in found.what) for found in findings] == [("problem", True)]


def test_sink_reads_nothing_again_after_a_crash_and_leaves_zombies_behind(s3: S3Server) -> None:
    root = s3.bucket("crashes")
    with SinkHarness(ObjectStoreSinkConnector, sink_config(s3, root)) as sink:
        zombie = SinkHarness(ObjectStoreSinkConnector, sink_config(s3, root, **{"flush.size": "7"}))
        with zombie:
            send(sink, 6)
            send(zombie, 6)
            sink.deliver()
            zombie.deliver()
            sink.restart()  # 4 records are in files, no offset was committed
            send(sink, 10)
            send(zombie, 10)
            zombie.deliver()
            sink.deliver()
            assert sink.commit()[PLACE] >= 12
    found = numbers(s3, root)
    assert found == list(range(len(found)))
    assert len(found) >= 12


class DyingStore(RemoteStore):
    """A store of which the answers to some calls are lost."""

    fails: Iterator[bool] = iter(())

    def create(self, key: str, data: bytes, note: Note) -> Note | None:
        found = super().create(key, data, note)
        if next(self.fails, False):
            raise RetriableError("the answer was lost")
        return found


@pytest.mark.parametrize("dies", [False, True])
def test_sink_finishes_chunks_whose_answer_was_lost(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, dies: bool
) -> None:
    root = s3.bucket(f"lost-{dies}".lower())

    def dying(uri: str, config: Mapping[str, str]) -> DyingStore:
        found = open_store(uri, config)
        found.__class__ = DyingStore
        assert isinstance(found, DyingStore)
        return found

    monkeypatch.setattr(sink_task, "open_store", dying)
    monkeypatch.setattr(DyingStore, "fails", iter([True, False, True]))
    with SinkHarness(ObjectStoreSinkConnector, sink_config(s3, root)) as sink:
        send(sink, 8)
        failed = 0
        while not sink.deliver():
            failed += 1
            if dies:
                sink.restart()
        assert failed == 2
        assert sink.commit() == {PLACE: 8}
    assert numbers(s3, root) == list(range(8))


@pytest.mark.parametrize("upserts", [False, True], ids=["appended", "upserted"])
def test_iceberg_and_delta_tables_on_s3(s3: S3Server, tmp_path: Path, upserts: bool) -> None:
    root = s3.bucket(f"tables-{upserts}".lower())
    common = {
        "topics": "orders",
        "iceberg.tables": "shop.orders",
        "iceberg.tables.auto-create-enabled": "true",
        "iceberg.control.commit.interval-ms": "1",
        "iceberg.tables.upsert-mode-enabled": str(upserts).lower(),
        "iceberg.tables.default-id-columns": "n" if upserts else "",
        **JSON,
    }
    catalog = {
        "uri": f"sqlite:///{tmp_path / 'catalog.db'}",
        "warehouse": f"{root}/iceberg",
        "s3.endpoint": s3.url,
        "s3.region": "us-east-1",
        "s3.access-key-id": KEY,
        "s3.secret-access-key": SECRET,
    }
    iceberg = {"iceberg.catalog.type": "sql", **{f"iceberg.catalog.{name}": text for name, text in catalog.items()}}
    storage = {
        "AWS_ENDPOINT_URL": s3.url,
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
    }
    delta = {"delta.root": f"{root}/delta", **{f"delta.storage.{name}": text for name, text in storage.items()}}
    for name, connector, own in (("iceberg", IcebergSinkConnector, iceberg), ("delta", DeltaSinkConnector, delta)):
        with SinkHarness(connector, {"name": name, **common, **own}) as sink:
            send(sink, 3)
            settle(sink)
            sink.restart()
            sink.send("orders", {"n": 1, "kind": "new"})
            settle(sink)
            assert sink.commit() == {PLACE: 4}
    want = [(0, "a"), (1, "new"), (2, "a")] if upserts else [(0, "a"), (1, "b"), (1, "new"), (2, "a")]
    table = SqlCatalog("iceberg", **catalog).load_table("shop.orders").scan().to_arrow()
    assert sorted(zip(table["n"].to_pylist(), table["kind"].to_pylist(), strict=True)) == want
    rows = DeltaTable(f"{root}/delta/shop/orders", storage_options=storage).to_pyarrow_table()
    assert sorted(zip(rows["n"].to_pylist(), rows["kind"].to_pylist(), strict=True)) == want


def test_sink_waits_for_a_server_that_is_away(s3: S3Server) -> None:
    root = s3.bucket("away")
    with SinkHarness(ObjectStoreSinkConnector, sink_config(s3, root)) as sink:
        send(sink, 4)
        s3.stop()
        try:
            assert not sink.deliver()
            assert sink.commit().get(PLACE, 0) == 0
        finally:
            s3.start()
        while not sink.deliver():
            pass
        assert sink.commit() == {PLACE: 4}
    assert numbers(s3, root) == [0, 1, 2, 3]


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "jsonl", "parquet"])
def test_directory_source_reads_and_moves_objects(s3: S3Server, kind: str) -> None:
    root = s3.bucket(f"in-{kind}".replace(".", "-"))
    table = pa.table({"id": pa.array(range(3000), pa.int64()), "name": [f"é{n}" for n in range(3000)]})
    texts = {"csv": "id,name\n" + "".join(f"{n},é{n}\n" for n in range(3000))}
    texts["jsonl"] = "".join(json.dumps({"id": n, "name": f"é{n}"}) + "\n" for n in range(3000))
    out = BytesIO()
    pq.write_table(table, out, row_group_size=500)
    data = {**{name: text.encode() for name, text in texts.items()}, "parquet": out.getvalue()}
    data["csv.gz"] = gzip.compress(data["csv"])
    store = open_store(root, s3.config)
    assert store.create(f"new/rows.{kind}", data[kind], {}) is None
    config = {
        "name": "in",
        "directory": f"{root}/new",
        "topic": "rows",
        "format": kind.removesuffix(".gz"),
        "schema": "" if kind == "parquet" else "id:int64,name:string",
        "file.settle.ms": "0",
        "poll.interval.ms": "1",
        "file.done": "move",
        "file.done.directory": f"{root}/done",
        **s3.config,
        **JSON,
    }
    with SourceHarness(DirectorySourceConnector, config) as source:
        found = [json.loads(record.value or b"") for record in source.poll_all()]
        end_s = time.monotonic() + 30
        while not store.files("done"):
            source.poll()
            assert time.monotonic() < end_s
        (offset,) = source.offsets.all()
    assert found == table.to_pylist()
    assert offset[0] == {"file": f"{root}/new/rows.{kind}"}
    assert store.files("new") == []
    with pytest.raises(BadConfigError, match="must be a folder of the same bucket"):
        checked({**config, "file.done.directory": "/done"})


def test_delimited_file_source_follows_an_object_that_is_replaced_by_a_longer_one(s3: S3Server) -> None:
    root = s3.bucket("grows")
    file = s3.buckets / "grows" / "rows.csv"
    file.write_text("id\n1\n")
    config = {"name": "rows", "file": f"{root}/rows.csv", "topic": "rows", "schema": "id:int64", **s3.config, **JSON}
    with SourceHarness(DelimitedFileSourceConnector, config) as source:
        assert [json.loads(record.value or b"") for record in source.poll_all()] == [{"id": 1}]
        file.write_text("id\n1\n2\n")
        source.restart()
        assert [json.loads(record.value or b"") for record in source.poll_all()] == [{"id": 2}]
        file.write_text("id\n7\n8\n9\n")
        assert [json.loads(record.value or b"") for record in source.poll_all()] == [{"id": n} for n in (7, 8, 9)]
    with pytest.raises(ConnectError, match=r"none\.csv does not exist"):
        SourceHarness(DelimitedFileSourceConnector, {**config, "file": f"{root}/none.csv"}).start()
