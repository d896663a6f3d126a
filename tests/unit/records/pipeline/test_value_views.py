"""Values as views of the memory in which they were received: their sizes, and their copies."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from spark_connect_rt.records.pipeline.columns import PARTITION, TOPIC, VIEWS, content_bytes, without_views
from spark_connect_rt.records.pipeline.forth_machine import binary_pieces, binary_views

RECEIVED = np.frombuffer(b"head a value of one record tail|head the longer value of another record tail|", np.uint8)
AT, LENGTHS = np.array([5, 37]), np.array([21, 34])


def consumed(values: pa.Array) -> pa.RecordBatch:
    schema = pa.schema([("offset", pa.int64()), ("value", values.type)], metadata={TOPIC: b"t", PARTITION: b"0"})
    return pa.RecordBatch.from_arrays([pa.array([7, 8]), values], schema=schema)


def test_views_show_what_pieces_copy() -> None:
    views = binary_views(RECEIVED, AT, LENGTHS)
    assert views is not None
    views.validate(full=True)
    assert views.to_pylist() == [b"a value of one record", b"the longer value of another record"]
    assert views.cast(pa.binary()) == binary_pieces(RECEIVED, AT, LENGTHS)


@pytest.mark.parametrize("lengths", [[-1, 34], [12, 34]])
def test_a_null_or_a_short_value_has_no_view(lengths: list[int]) -> None:
    assert binary_views(RECEIVED, AT, np.array(lengths)) is None


def test_a_batch_with_views_becomes_the_one_with_copies() -> None:
    views = binary_views(RECEIVED, AT, LENGTHS)
    assert views is not None
    batch, copied = consumed(views), consumed(binary_pieces(RECEIVED, AT, LENGTHS))
    assert batch.schema.field("value").type == VIEWS
    assert without_views(batch).equals(copied, check_metadata=True)
    assert without_views(copied) is copied
    assert without_views(copied.select(["offset"])).schema.names == ["offset"]


def test_the_size_of_views_is_that_of_what_they_show() -> None:
    views = binary_views(RECEIVED, AT, LENGTHS)
    assert views is not None
    batch, copied = consumed(views), consumed(binary_pieces(RECEIVED, AT, LENGTHS))
    for first in (0, 1):
        assert content_bytes(batch.slice(first)) == without_views(batch.slice(first)).nbytes
        assert content_bytes(copied.slice(first)) == copied.slice(first).nbytes
