"""ObjectStoreSink in the harness, on a folder: names, cuts, formats, and each record in one file whatever fails."""

from __future__ import annotations

import csv
import gzip
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pyarrow.parquet as pq
import pytest

from spark_connect_rt.api.data.schema import INT64, OPTIONAL_STRING, STRING, struct_of
from spark_connect_rt.api.data.struct import Struct
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.connectors.file_stores import LocalStore, Note
from spark_connect_rt.connectors.object_store import sink_task
from spark_connect_rt.connectors.object_store.settings import CONFIG, NEVER
from spark_connect_rt.connectors.object_store.sink_connector import ObjectStoreSinkConnector
from spark_connect_rt.errors import BadConfigError, ConnectError, DataError, ExternalError, RetriableError
from spark_connect_rt.testing.sink_harness import SinkHarness

JSON = {"value.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter.schemas.enable": "false"}
PLACE = TopicPartition("t", 0)
DAY_MS = 86_400_000


def harness(folder: Path, **settings: str) -> SinkHarness:
    config = {
        "name": "files",
        "topics": "t",
        "path": str(folder),
        "format.class": "jsonl",
        "flush.size": "3",
        "rotate.schedule.interval.ms": str(NEVER),
        **JSON,
        **{name.replace("__", "."): value for name, value in settings.items()},
    }
    return SinkHarness(ObjectStoreSinkConnector, config)


def files(folder: Path) -> dict[str, bytes]:
    """Return the files that readers see: key below `topics/t` -> content."""
    root = folder / "topics" / "t"
    found = {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}
    return {key: data for key, data in sorted(found.items()) if not Path(key).name.startswith(".")}


def numbers(folder: Path) -> list[int]:
    """Return the field `n` of every row of every file."""
    rows = [json.loads(line) for data in files(folder).values() for line in data.splitlines()]
    return sorted(row["n"] for row in rows)


def send(sink: SinkHarness, count: int, **fields: Any) -> None:
    first = sink.topics.end(PLACE)
    for n in range(first, first + count):
        sink.send("t", {"n": n, **fields}, timestamp_ms=n * 1000)


def test_files_have_confluents_names_and_the_groups_offset_follows_them(tmp_path: Path) -> None:
    with harness(tmp_path) as sink:
        send(sink, 7)
        sink.deliver()
        assert sink.commit() == {PLACE: 6}
        assert files(tmp_path) == {
            "partition=0/t+0+0000000000.json": b'{"n":0}\n{"n":1}\n{"n":2}\n',
            "partition=0/t+0+0000000003.json": b'{"n":3}\n{"n":4}\n{"n":5}\n',
        }
        sink.restart()
        send(sink, 2)
        sink.deliver()
    assert numbers(tmp_path) == list(range(9))


def test_crash_between_file_and_commit_repeats_nothing(tmp_path: Path) -> None:
    with harness(tmp_path) as sink:
        send(sink, 4)
        sink.deliver()
        before = files(tmp_path)
        sink.restart()  # nothing was committed
        sink.deliver()
        assert files(tmp_path) == before
        send(sink, 5)
        sink.deliver()
        assert sink.commit() == {PLACE: 9}
    assert numbers(tmp_path) == list(range(9))


class OverwritingStore(LocalStore):
    """A store that writes without the condition that the key is free."""

    def create(self, key: str, data: bytes, note: Note) -> Note | None:
        path = Path(self.uri) / key
        path.unlink(missing_ok=True)
        path.with_name(f".{path.name}.note").unlink(missing_ok=True)
        return super().create(key, data, note)


@pytest.fixture(params=[LocalStore, OverwritingStore], ids=["conditional", "overwriting"])
def each_once(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether each record is expected once: not in the control, whose store overwrites files."""
    monkeypatch.setattr(sink_task, "open_store", lambda root, config: request.param(root))
    return bool(request.param is LocalStore)


@pytest.mark.parametrize(("first", "second"), [("5", "3"), ("3", "5"), ("4", "7")])
def test_another_cut_after_a_crash_still_gives_each_record_once(
    tmp_path: Path, first: str, second: str, each_once: bool
) -> None:
    """Cuts differ after a crash: by the clock, by memory, or by changed settings. The lead file decides."""
    fields = {"partitioner__class": "field", "partition__field__name": "kind"}
    with harness(tmp_path, flush__size=first, **fields) as sink:
        topics = sink.topics
        for n in range(20):
            sink.send("t", {"n": n, "kind": "ab"[n % 2]})
        sink.deliver()
    again = harness(tmp_path, flush__size=second, **fields)
    with again:
        again.topics.append(list(topics.read(PLACE, 0, 1 << 30)))
        for n in range(20, 30):
            again.send("t", {"n": n, "kind": "ab"[n % 2]})
        again.deliver()
        assert again.commit()[PLACE] >= 28 - int(second)
        again.restart()
        again.deliver()
    found = numbers(tmp_path)
    assert (found == list(range(len(found)))) == each_once
    assert len(found) >= 30 - int(second) or not each_once


class FailingStore(LocalStore):
    """A store whose calls fail at chosen times, before or after their effect."""

    fails: Iterator[str | None] = iter(())

    def create(self, key: str, data: bytes, note: Note) -> Note | None:
        fault = next(self.fails, None)
        if fault == "before":
            raise RetriableError("away")
        found = super().create(key, data, note)
        if fault == "after":
            raise RetriableError("the answer was lost")
        return found


@pytest.mark.parametrize("fault", ["before", "after"])
@pytest.mark.parametrize("at", range(4))
@pytest.mark.parametrize("dies", [False, True])
def test_failed_writes_lose_and_repeat_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str, at: int, dies: bool
) -> None:
    monkeypatch.setattr(sink_task, "open_store", lambda root, config: FailingStore(root))
    fields = {"partitioner__class": "field", "partition__field__name": "kind"}
    with harness(tmp_path, flush__size="4", **fields) as sink:
        for n in range(10):
            sink.send("t", {"n": n, "kind": "abc"[n % 3]})
        monkeypatch.setattr(FailingStore, "fails", iter([None] * at + [fault]))
        assert not sink.deliver()
        if dies:
            sink.restart()
        while not sink.deliver():
            pass
        assert sink.commit() == {PLACE: 8}
    assert numbers(tmp_path) == list(range(8))


def test_zombie_neither_overwrites_nor_repeats(tmp_path: Path, each_once: bool) -> None:
    """Two tasks have the partition. The zombie holds rows since before the other one wrote them, and more of them."""
    zombie, owner = harness(tmp_path, flush__size="5"), harness(tmp_path, flush__size="3")
    with zombie, owner:
        for sink in (zombie, owner):
            send(sink, 4)
        zombie.deliver()
        owner.deliver()
        kept = files(tmp_path)
        assert numbers(tmp_path) == [0, 1, 2]
        for sink in (zombie, owner):
            send(sink, 8)
        zombie.deliver()
        owner.deliver()
        assert ({key: files(tmp_path)[key] for key in kept} == kept) == each_once
        if each_once:
            assert zombie.commit()[PLACE] <= len(numbers(tmp_path)) >= owner.commit()[PLACE] > 3
    found = numbers(tmp_path)
    assert (found == list(range(len(found)))) == each_once


def test_new_topic_of_the_same_name_is_noticed(tmp_path: Path) -> None:
    with harness(tmp_path) as sink:
        sink.topics.topic_ids["t"] = "first"
        send(sink, 3)
        sink.deliver()
    with harness(tmp_path) as sink:
        sink.topics.topic_ids["t"] = "second"
        send(sink, 3)
        with pytest.raises(ExternalError, match=r"topic t was deleted and created again.*Move the former files away"):
            sink.deliver()
        assert sink.commit().get(PLACE, 0) == 0


def test_foreign_file_and_altered_offsets_are_noticed(tmp_path: Path) -> None:
    folder = tmp_path / "topics/t/partition=0"
    folder.mkdir(parents=True)
    (folder / "t+0+0000000000.json").write_text("{}")
    with harness(tmp_path) as sink:
        send(sink, 3)
        with pytest.raises(ExternalError, match="this sink did not write it"):
            sink.deliver()
    (folder / "t+0+0000000000.json").unlink()
    fields = {"partitioner__class": "field", "partition__field__name": "kind"}
    with harness(tmp_path, **fields) as sink:
        for n in range(3):
            sink.send("t", {"n": n, "kind": "ab"[n % 2]})
        sink.deliver()
        sink.committed[PLACE] = 1
        send(sink, 3, kind="a")
        sink.restart()
        with pytest.raises(ExternalError, match="offsets 0 to 3, but the task writes offsets 1 to 4"):
            sink.deliver()


@pytest.mark.parametrize("schemaless", [True, False])
def test_formats_hold_the_same_rows(tmp_path: Path, schemaless: bool) -> None:
    schema = struct_of({"n": INT64, "w": OPTIONAL_STRING, "deep": struct_of({"x": INT64})})
    rows = [
        {"n": 1, "w": "a,b", "deep": {"x": 1}},
        {"n": 2, "w": None, "deep": {"x": 2}},
        {"n": 3, "w": "c", "deep": {"x": 3}},
    ]
    read = {
        "jsonl": lambda data: [json.loads(line) for line in data.splitlines()],
        "parquet": lambda data: pq.read_table(BytesIO(data)).to_pylist(),
        "avro": lambda data: list(fastavro.reader(BytesIO(data))),
        "csv": lambda data: [
            {"n": int(row["n"]), "w": row["w"] or None, "deep": json.loads(row["deep"])}
            for row in csv.DictReader(data.decode().splitlines())
        ],
    }
    for kind, reader in read.items():
        if schemaless and kind == "avro":
            continue  # as AvroConverter writes values without a schema: see below
        with harness(
            tmp_path / kind, format__class=kind, value__converter__schemas__enable=str(not schemaless)
        ) as sink:
            deep = schema.field("deep")
            assert deep is not None
            for row in rows:
                nested = Struct(deep.schema, row["deep"])
                value = row if schemaless else Struct(schema, {**row, "deep": nested})
                sink.send("t", value, schema=None if schemaless else schema)
            sink.deliver()
        (data,) = files(tmp_path / kind).values()
        assert reader(data) == rows, kind


@pytest.mark.parametrize(
    ("settings", "ending"),
    [
        ({"s3__compression__type": "gzip"}, ".json.gz"),
        ({"format__class": "csv", "s3__compression__type": "gzip"}, ".csv.gz"),
        ({"format__class": "parquet"}, ".snappy.parquet"),
        ({"format__class": "io.confluent.connect.s3.format.parquet.ParquetFormat", "parquet__codec": "zstd"},
         ".zstd.parquet"),
        ({"format__class": "avro", "avro__codec": "deflate"}, ".avro"),
        ({"format__class": "avro", "avro__codec": "bzip2"}, ".avro"),
        ({"format__class": "avro", "avro__codec": "null"}, ".avro"),
    ],
)  # fmt: skip
def test_compressed_files_are_read_back(tmp_path: Path, settings: Mapping[str, str], ending: str) -> None:
    schema = struct_of({"n": INT64})
    with harness(tmp_path, **{**settings, "value__converter__schemas__enable": "true"}) as sink:
        for n in range(3):
            sink.send("t", Struct(schema, {"n": n}), schema=schema)
        sink.deliver()
    ((key, data),) = files(tmp_path).items()
    assert key == f"partition=0/t+0+0000000000{ending}"
    if ending.endswith(".gz"):
        assert b"2" in gzip.decompress(data).splitlines()[-1]
    elif ending == ".avro":
        assert [row["n"] for row in fastavro.reader(BytesIO(data))] == [0, 1, 2]
    else:
        assert pq.read_table(BytesIO(data))["n"].to_pylist() == [0, 1, 2]


def test_json_keeps_absent_fields_absent(tmp_path: Path) -> None:
    with harness(tmp_path, flush__size="2") as sink:
        sink.send("t", {"a": 1})
        sink.send("t", {"b": [1.5, "x", None]})
        sink.deliver()
    assert list(files(tmp_path).values()) == [b'{"a":1}\n{"b":[1.5,"x",null]}\n']


def test_another_schema_begins_another_file_except_for_json(tmp_path: Path) -> None:
    first, second = struct_of({"n": INT64}), struct_of({"n": INT64, "w": STRING})
    for kind, count in (("parquet", 2), ("avro", 2), ("csv", 2), ("jsonl", 1)):
        with harness(
            tmp_path / kind, format__class=kind, flush__size="4", value__converter__schemas__enable="true"
        ) as sink:
            for n in range(2):
                sink.send("t", Struct(first, {"n": n}), schema=first)
            for n in range(4):
                sink.send("t", Struct(second, {"n": n, "w": "x"}), schema=second)
            sink.deliver()
            assert sink.commit() == {PLACE: 6 if count == 2 else 4}
        assert len(files(tmp_path / kind)) == count


def test_schemaless_columns_grow_and_long_numbers_keep_their_digits(tmp_path: Path) -> None:
    with harness(tmp_path, format__class="parquet", flush__size="6") as sink:
        for value in ({"n": 1}, {"n": 2.5, "w": "x"}, {"n": None, "deep": {"a": 1}}, {"n": 4, "deep": {"b": 2}}):
            sink.send("t", value)
            sink.deliver()
        sink.send("t", {"n": 2**60 + 1})
        sink.deliver()
        for n in range(6):
            sink.send("t", {"n": 2**60 + n})
        sink.deliver()
    tables = [pq.read_table(BytesIO(data)) for data in files(tmp_path).values()]
    assert tables[0].to_pylist()[3] == {"n": 4.0, "w": None, "deep": {"a": None, "b": 2}}
    assert tables[1]["n"].to_pylist() == [2**60 + 1, *(2**60 + n for n in range(5))]


def test_folders_by_time_and_by_fields(tmp_path: Path) -> None:
    settings = {"partitioner__class": "time", "path__format": "'year'=YYYY/'d'=MM-dd/HH", "timezone": "Asia/Kolkata"}
    with harness(tmp_path, **settings) as sink:
        for time_ms in (0, DAY_MS - 5 * 3_600_000, 1_000):  # the last one is late
            sink.send("t", {"n": time_ms}, timestamp_ms=time_ms)
        sink.deliver()
        assert sink.commit() == {PLACE: 3}
    assert {key: len(data.splitlines()) for key, data in files(tmp_path).items()} == {
        "year=1970/d=01-01/05/t+0+0000000000.json": 2,
        "year=1970/d=01-02/00/t+0+0000000001.json": 1,
    }
    fields = {"partitioner__class": "field", "partition__field__name": "a.b,n"}
    with harness(tmp_path / "fields", **fields) as sink:
        for text in ("x/../y", None, "z w"):
            sink.send("t", {"n": 1, "a": {"b": text}})
        sink.deliver()
    assert sorted(files(tmp_path / "fields")) == [
        "b=__HIVE_DEFAULT_PARTITION__/n=1/t+0+0000000001.json",
        "b=x%2F..%2Fy/n=1/t+0+0000000000.json",
        "b=z w/n=1/t+0+0000000002.json",
    ]


def test_times_come_from_a_field_in_every_form(tmp_path: Path) -> None:
    settings = {"partitioner__class": "daily", "timestamp__extractor": "RecordField", "timestamp__field": "at"}
    for number, value in enumerate((DAY_MS, "1970-01-02T03:04:05.678901Z", "1970-01-02T03:04:05")):
        with harness(tmp_path / str(number), flush__size="1", **settings) as sink:
            sink.send("t", {"at": value})
            sink.deliver()
        assert list(files(tmp_path / str(number))) == ["year=1970/month=01/day=02/t+0+0000000000.json"]
    with harness(tmp_path / "bad", **settings) as sink:
        sink.send("t", {"at": "soon"})
        with pytest.raises(DataError, match="t-0@0: field at is not a time"):
            sink.deliver()


def test_records_times_end_files(tmp_path: Path) -> None:
    with harness(tmp_path, flush__size="100", rotate__interval__ms="2000") as sink:
        send(sink, 5)
        sink.deliver()
        assert sink.commit() == {PLACE: 4}
    assert [len(data.splitlines()) for data in files(tmp_path).values()] == [2, 2]


def test_the_clock_ends_files_of_quiet_partitions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [86_400.0 * 365 + 100]
    monkeypatch.setattr(sink_task.time, "time", lambda: now_s[0])
    with harness(tmp_path, flush__size="100", rotate__schedule__interval__ms="600000") as sink:
        send(sink, 2)
        sink.deliver()
        assert sink.asked_wait_s is not None
        assert 499 < sink.asked_wait_s <= 500
        assert files(tmp_path) == {}
        now_s[0] += 500
        sink.deliver()
        assert sink.commit() == {PLACE: 2}
    assert numbers(tmp_path) == [0, 1]


def test_memory_and_folders_are_bounded(tmp_path: Path) -> None:
    with harness(tmp_path, flush__size="100000", connectrt__object__memory__bytes="4096") as sink:
        for partition in range(3):
            for n in range(20):
                sink.send("t", {"n": n, "pad": "x" * 100}, partition=partition)
                sink.deliver()
                held = sum(each.chunk.size for each in sink.task._partitions.values())  # type: ignore[attr-defined]
                assert held <= 4096
    assert len(files(tmp_path)) > 1
    settings = {"partitioner__class": "field", "partition__field__name": "n", "connectrt__object__max__folders": "5"}
    with harness(tmp_path / "folders", flush__size="100000", **settings) as sink:
        send(sink, 12)
        sink.deliver()
        assert sink.commit() == {PLACE: 10}
    with harness(tmp_path / "bytes", flush__size="100000", connectrt__object__max__bytes="1024") as sink:
        send(sink, 100)
        sink.deliver()
        assert sink.commit()[PLACE] > 50
    assert numbers(tmp_path / "bytes") == list(range(sink.committed[PLACE]))


def test_null_values_fail_are_dead_lettered_or_left_out(tmp_path: Path) -> None:
    with harness(tmp_path) as sink:
        sink.send("t", None)
        with pytest.raises(DataError, match=r"t-0@0: the record has no value.*behavior\.on\.null\.values=ignore"):
            sink.deliver()
    letters = {"errors__tolerance": "all", "errors__deadletterqueue__topic__name": "letters"}
    for name, settings, count in (("ignored", {"behavior__on__null__values": "ignore"}, 0), ("letters", letters, 1)):
        with harness(tmp_path / name, flush__size="2", **settings) as sink:
            sink.send("t", {"n": 0})
            sink.send("t", None)
            sink.send("t", {"n": 1})
            sink.deliver()
            assert sink.commit() == {PLACE: 3}
            if count:
                assert len(sink.dead_letters()) == count
        assert numbers(tmp_path / name) == [0, 1]


def test_records_that_do_not_fit_are_dead_lettered_alone(tmp_path: Path) -> None:
    letters = {"errors__tolerance": "all", "errors__deadletterqueue__topic__name": "letters"}
    fields = {"partitioner__class": "field", "partition__field__name": "kind"}
    with harness(tmp_path, flush__size="2", **fields, **letters) as sink:
        for value in ({"n": 0, "kind": "a"}, {"n": 1}, {"n": 2, "kind": [1]}, "text", {"n": 4, "kind": "a"}):
            sink.send("t", value)
        sink.deliver()
        assert len(sink.dead_letters()) == 3
        assert sink.commit() == {PLACE: 5}
    assert numbers(tmp_path) == [0, 4]
    with harness(tmp_path / "parquet", format__class="parquet") as sink:
        sink.send("t", 7)
        with pytest.raises(DataError, match="a row of Parquet needs named fields"):
            sink.deliver()


def test_keys_and_headers_have_files_of_the_same_rows(tmp_path: Path) -> None:
    with harness(tmp_path, store__kafka__keys="true", store__kafka__headers="true") as sink:
        for n in range(3):
            sink.send("t", {"n": n}, key=None if n == 1 else f"k{n}", headers=[("h", b"text")] if n else ())
        sink.deliver()
    found = files(tmp_path)
    assert sorted(found) == [f"partition=0/t+0+0000000000{part}.json" for part in (".headers", "", ".keys")]
    assert found["partition=0/t+0+0000000000.keys.json"] == b'"k0"\nnull\n"k2"\n'
    assert found["partition=0/t+0+0000000000.headers.json"].splitlines() == [
        b"[]",
        *[b'[{"name":"h","value":"text"}]'] * 2,
    ]


def test_store_that_stays_away_fails_the_task_in_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink_task, "open_store", lambda root, config: FailingStore(root))
    monkeypatch.setattr(FailingStore, "fails", iter(["before"] * 10))
    with harness(tmp_path, connectrt__object__retry__timeout__ms="0") as sink:
        send(sink, 3)
        with pytest.raises(ExternalError, match="Nothing is lost: restart the task when the store is back"):
            sink.deliver()


@pytest.mark.parametrize(
    ("changed", "setting", "reason"),
    [
        ({"path": ""}, "path", "must not be empty"),
        ({"s3.bucket.name": "b"}, "path", "but not both"),
        ({"path": "ftp://x"}, "path", "is not supported"),
        ({"path": "s3://"}, "path", "must name a bucket"),
        ({"partitioner.class": "field"}, "partition.field.name", "must name a field"),
        ({"partitioner.class": "time"}, "path.format", "must be set"),
        ({"path.format": "'year'=YYYY/QQ"}, "path.format", "QQ is not supported"),
        ({"path.format": "'year=YYYY"}, "path.format", "a quote is not closed"),
        ({"timezone": "Mars"}, "timezone", "is not a time zone"),
        ({"format.class": "orc"}, "format.class", "Use parquet, jsonl, csv, avro"),
        ({"rotate.interval.ms": "0"}, "rotate.interval.ms", "must be at least 1, or -1"),
        ({"aws.access.key.id": "x"}, "aws.secret.access.key", "must be set together"),
        ({"topics.dir": "../x"}, "topics.dir", "must not contain"),
        ({"store.url": "nonsense"}, "store.url", "must be an address"),
    ],
)
def test_wrong_settings_are_named(tmp_path: Path, changed: Mapping[str, str], setting: str, reason: str) -> None:
    config = {"name": "files", "topics": "t", "path": str(tmp_path), **changed}
    alone = {value.name: value.errors for value in CONFIG.validate(config) if value.errors}
    problems = alone or ObjectStoreSinkConnector().validate(config)
    assert reason in " ".join(problems[setting])


def test_local_stores_notes_decide(tmp_path: Path) -> None:
    """Two creators of one file: the second one learns of the first, also if that died before it wrote the file."""
    store = LocalStore(str(tmp_path))
    assert store.create("a/b", b"1", {"end": 1}) is None
    assert store.create("a/b", b"1", {"end": 1}) is None
    assert store.create("a/b", b"12", {"end": 2}) == {"end": 1}
    (tmp_path / "a/b").unlink()
    assert store.create("a/b", b"12", {"end": 2}) == {"end": 1}
    assert store.create("a/b", b"1", {"end": 1}) is None
    assert (tmp_path / "a/b").read_bytes() == b"1"
    assert [found.key for found in store.files("a") if "/." not in found.key] == ["a/b"]
    assert Counter(path.suffix for path in (tmp_path / "a").iterdir())[".draft"] == 0


def test_missing_folder_is_made_and_missing_rights_are_named(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path / "file"))
    (tmp_path / "file").write_text("")
    with pytest.raises(ConnectError, match="cannot be written: File exists") as found:
        store.create("a", b"", {})
    assert not isinstance(found.value, RetriableError)
    with pytest.raises(BadConfigError):
        CONFIG.parse({"flush.size": "0"})
