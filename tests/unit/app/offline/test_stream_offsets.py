"""A stream's checkpoint beside the offset topic: what is read of the one, and how they differ."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spark_connect_rt.app.offline.stream_offsets import compared, done_batch
from spark_connect_rt.errors import BadRequestError


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    for kind in ("offsets", "commits"):
        (tmp_path / kind).mkdir()
    return tmp_path


def write(checkpoint: Path, batch: int, *sources: object, version: str = "v1", done: bool = True) -> None:
    lines = [version, "{}", *map(json.dumps, sources)]
    (checkpoint / "offsets" / str(batch)).write_text("\n".join(lines))
    if done:
        (checkpoint / "commits" / str(batch)).write_text("v1\n{}")


def position(offset: int) -> dict[str, object]:
    return {'{"file":"f"}': {"offset": json.dumps({"at": offset}), "rows": 3}, "": {"offset": None, "rows": 1}}


def test_the_last_batch_that_is_done_counts(checkpoint: Path) -> None:
    write(checkpoint, 9, position(1))
    write(checkpoint, 10, {"other": "source"}, position(2))
    (checkpoint / "offsets" / ".10.crc").write_text("")
    assert done_batch(checkpoint, 1).offsets == [({"file": "f"}, {"at": 2})]
    assert not done_batch(checkpoint, 1).next_begun
    write(checkpoint, 11, position(3), done=False)
    found = done_batch(checkpoint, 1)
    assert (found.number, found.next_begun) == (10, True)
    with pytest.raises(BadRequestError, match=r"source 0 of .* is not one of format"):
        done_batch(checkpoint, 0)
    with pytest.raises(BadRequestError, match="and 2 sources"):
        done_batch(checkpoint, 2)


def test_invalid_checkpoint_is_reported(checkpoint: Path) -> None:
    with pytest.raises(BadRequestError, match="is not the checkpoint of a query that has finished a batch"):
        done_batch(checkpoint / "nowhere", 0)
    write(checkpoint, 0, position(1), version="v2")
    with pytest.raises(BadRequestError, match="format v2"):
        done_batch(checkpoint, 0)


def test_partitions_are_compared_by_what_they_are() -> None:
    stream = [({"a": 1, "b": 2}, {"at": 1}), ({"a": 2}, {"at": 1}), ({"a": 3}, {"at": 1})]
    topic = [({"b": 2, "a": 1}, {"at": 1}), ({"a": 2}, {"at": 1.0}), ({"a": 4}, {"at": 9}), ({"a": 3}, None)]
    assert compared(stream, topic) == [
        ('{"a":1,"b":2}', '{"at":1}', '{"at":1}', "same"),
        ('{"a":2}', '{"at":1}', '{"at":1.0}', "differs"),
        ('{"a":3}', '{"at":1}', "none", "not in the topic"),
        ('{"a":4}', "none", '{"at":9}', "not in the checkpoint: unchanged"),
    ]
