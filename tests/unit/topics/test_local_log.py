"""The local log of a standalone worker, in memory and with the offset file."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from spark_connect_rt.errors import ConnectError, RetriableError, StartupError, TimedOutError
from spark_connect_rt.topics.compacted_log import LogRecord
from spark_connect_rt.topics.local_log import LocalCompactedLog
from spark_connect_rt.topics.offset_file import OffsetFile, decode_byte_map, encode_byte_map
from spark_connect_rt.topics.offset_store import OffsetStore


class Reader:
    """Remembers the records that a log delivers."""

    def __init__(self) -> None:
        self.records: list[LogRecord] = []
        self.may_go_on = threading.Event()
        self.may_go_on.set()

    def __call__(self, batch: Sequence[LogRecord]) -> None:
        self.may_go_on.wait(10)
        self.records += batch


class BrokenKeeper:
    """A disk that is full until it is not."""

    def __init__(self) -> None:
        self.full = True
        self.saved: Mapping[bytes, bytes] = {}

    def load(self) -> Mapping[bytes, bytes]:
        return {b"old": b"1"}

    def save(self, values: Mapping[bytes, bytes]) -> None:
        if self.full:
            raise OSError("no space left")
        self.saved = dict(values)


def test_appended_records_are_delivered_in_order_and_answered() -> None:
    log, read = LocalCompactedLog("a"), Reader()
    log.start(read)
    answers: list[Exception | None] = []
    log.append([(b"a", b"1"), (b"b", None)], answers.append)
    log.append([(b"a", b"2")])
    log.read_to_end(5_000)
    assert [(r.partition, r.offset, r.key, r.value) for r in read.records] == [
        (0, 0, b"a", b"1"),
        (0, 1, b"b", None),
        (0, 2, b"a", b"2"),
    ]
    assert answers == [None]
    log.stop()
    with pytest.raises(ConnectError):
        log.append([(b"a", b"3")])


def test_a_reader_that_hangs_is_a_time_out_and_a_stop_writes_what_waits() -> None:
    log, read = LocalCompactedLog("a"), Reader()
    log.start(read)
    read.may_go_on.clear()
    log.append([(b"a", b"1")])
    with pytest.raises(TimedOutError):
        log.read_to_end(20)
    log.append([(b"b", b"1")])
    read.may_go_on.set()
    log.stop()
    assert [record.key for record in read.records] == [b"a", b"b"]


def test_unsaved_records_are_not_delivered_and_every_caller_gets_the_error() -> None:
    keeper, read = BrokenKeeper(), Reader()
    log = LocalCompactedLog("a", keeper)
    log.start(read)
    answers: list[Exception | None] = []
    log.append([(b"new", b"1")], answers.append)
    with pytest.raises(RetriableError, match="no space left"):
        log.flush(5_000)
    assert isinstance(answers[0], OSError)
    keeper.full = False
    log.append([(b"new", b"2"), (b"old", None)])
    log.flush(5_000)
    log.stop()
    assert [record.key for record in read.records] == [b"old", b"new", b"old"]
    assert keeper.saved == {b"new": b"2"}


def test_offsets_survive_in_java_s_file(tmp_path: Path) -> None:
    path = tmp_path / "connect.offsets"
    java_key = b'["theirs",{"b":1,"a":"x"}]'
    path.write_bytes(encode_byte_map([(java_key, b'{"position":5}'), (b'["gone",{}]', None)]))
    store = OffsetStore(LocalCompactedLog("offsets", OffsetFile(path)))
    store.start()
    assert store.connector_offsets("theirs") == [({"b": 1, "a": "x"}, {"position": 5})]
    store.put("theirs", [({"a": "x", "b": 1}, {"position": 6})])
    store.put("ours", [({"f": "g"}, {"n": 1})])
    store.flush(5_000)
    store.stop()
    assert decode_byte_map(path.read_bytes()) == {java_key: b'{"position":6}', b'["ours",{"f":"g"}]': b'{"n":1}'}
    again = OffsetStore(LocalCompactedLog("offsets", OffsetFile(path)))
    again.start()
    assert again.connector_offsets("ours") == [({"f": "g"}, {"n": 1})]
    again.stop()
    assert [file.name for file in tmp_path.iterdir()] == ["connect.offsets"]


def test_a_missing_or_empty_file_has_no_offsets_and_a_foreign_one_ends_the_worker(tmp_path: Path) -> None:
    assert OffsetFile(tmp_path / "none").load() == {}
    (tmp_path / "empty").touch()
    assert OffsetFile(tmp_path / "empty").load() == {}
    (tmp_path / "foreign").write_text("hello")
    with pytest.raises(StartupError, match="foreign cannot be read") as refused:
        LocalCompactedLog("offsets", OffsetFile(tmp_path / "foreign")).start(Reader())
    assert refused.value.exit_code == 21
    with pytest.raises(StartupError, match="cannot be read"):
        OffsetFile(tmp_path).load()
