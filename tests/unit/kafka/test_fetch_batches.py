"""Fetch requests of the batch copier beside the library's own, version by version."""

from __future__ import annotations

import struct
from typing import Any

import aiokafka.protocol.fetch as fetch
import pytest

from spark_connect_rt.kafka.copying.fetch_batches import FetchBatches
from spark_connect_rt.kafka.reading.leader_epochs import FencedFetchRequest

TOPICS = [("t", [(0, 5, 1_000), (3, 2**40, 1_000)]), ("ü", [(1, 0, 7)])]
FIELDS = (500, 1, 9_000, 1, TOPICS)
EPOCHS = {("t", 3): 12}
VERSIONS = pytest.mark.parametrize("version", range(4, 12))


@VERSIONS
def test_a_request_is_written_as_the_library_writes_it(version: int) -> None:
    library = FencedFetchRequest(*FIELDS, epochs=EPOCHS).build(getattr(fetch, f"FetchRequest_v{version}"))
    if version >= 7:
        assert library.session_id == 0
    request = FetchBatches(*FIELDS, epochs=EPOCHS)
    assert b"".join(request._body(version)) == library.encode()
    assert request.version({1: (0, version)}) == version


@VERSIONS
def test_an_answer_is_read_as_the_library_reads_it(version: int) -> None:
    form = getattr(fetch, f"FetchResponse_v{version}")
    frame = bytearray(form(*([0] if version < 7 else [0, 0, 0]), [("t", _parts(version)), ("ü", [])]).encode())
    found = FetchBatches(*FIELDS, epochs={}).decoded(memoryview(frame), version).topics
    assert [(name, [one[0] for one in parts]) for name, parts in found] == [("t", [0, 3, 4]), ("ü", [])]
    (first, second, third), _ = (parts for _, parts in found)
    assert (first[1:4], first[5], bytes(first[-1])) == ((0, 70, 60), [(9, 3), (8, 4)], b"batches")
    assert (second[1], second[5], bytes(second[-1])) == (6, None, b"")
    assert (third[5], bytes(third[-1])) == ([], b"x" * 70_000)
    assert not first[-1].readonly, "its head is rewritten in place"
    assert first[-1].obj is not frame, "a small piece that waits would keep its whole answer in memory"
    assert third[-1].obj is frame, "a large one is not copied"


def test_an_answer_that_is_cut_off_is_refused() -> None:
    blob = fetch.FetchResponse_v11(0, 0, 0, [("t", _parts(11))]).encode()
    with pytest.raises(struct.error):
        FetchBatches(*FIELDS, epochs={}).decoded(memoryview(bytearray(blob[:-10])), 11)


def _parts(version: int) -> list[tuple[Any, ...]]:
    start: list[Any] = [0] if version >= 5 else []
    replica: list[Any] = [-1] if version >= 11 else []
    return [
        (0, 0, 70, 60, *start, [(9, 3), (8, 4)], *replica, b"batches"),
        (3, 6, -1, -1, *start, None, *replica, None),
        (4, 0, 5, 5, *start, [], *replica, b"x" * 70_000),
    ]
