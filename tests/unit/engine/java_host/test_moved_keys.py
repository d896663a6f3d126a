"""The parts of Debezium's changed keys are noticed at the end of a frame."""

from __future__ import annotations

import pyarrow as pa
import pytest

from spark_connect_rt.engine.java_host.source_task import NEW_KEY, OLD_KEY, MovedKeys
from spark_connect_rt.records.pipeline.columns import HEADERS_TYPE

ROW, DELETE, TOMBSTONE, INSERT = "r", "d", "t", "i"
_HEADERS = {DELETE: [NEW_KEY], INSERT: [OLD_KEY]}


def frame(kinds: str, topics: str = "") -> pa.RecordBatch:
    headers = [[{"key": name, "value": b"x"} for name in ["other", *_HEADERS.get(kind, [])]] for kind in kinds]
    columns = {
        "value": pa.array([None if kind == TOMBSTONE else b"v" for kind in kinds], pa.binary()),
        "headers": pa.array(headers, HEADERS_TYPE),
    }
    return pa.record_batch(columns | ({"topic": pa.array(list(topics), pa.string())} if topics else {}))


@pytest.mark.parametrize(
    ("frames", "is_open"),
    [
        (["rrd"], True),
        (["rrdt"], True),
        (["rrdti"], False),
        (["rdi"], False),
        (["d"], True),
        (["d", "t"], True),
        (["d", "t", "i"], False),
        (["rd", "ti"], False),
        (["rd", "r"], False),
        (["t"], False),
        (["r", "t"], False),
        (["rdtidt"], True),
        (["d", ""], True),
    ],
)
def test_a_delete_with_a_new_key_is_open_until_its_insert(frames: list[str], is_open: bool) -> None:
    moved = MovedKeys()
    for kinds in frames:
        moved.note([frame(kinds)])
    assert moved.is_open is is_open


def test_each_topic_of_a_frame_counts() -> None:
    moved = MovedKeys()
    moved.note([frame("rdtr", "aaab")])
    assert moved.is_open
    moved.note([frame("rdti"), frame("r")])
    assert not moved.is_open
    moved.note([frame("r"), frame("d")])
    assert moved.is_open


def test_frames_without_headers_have_no_moved_keys() -> None:
    moved = MovedKeys(is_open=True)
    moved.note([pa.record_batch({"value": pa.array([b"v", b"w"])})])
    assert not moved.is_open
