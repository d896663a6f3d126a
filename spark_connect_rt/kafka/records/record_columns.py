"""Record batches -> Arrow columns, all records of an answer at once.

Owns: where each record's key, value and headers lie. A program of AwkwardForth (a machine in C++ for columnar parsing
of record formats) reads what can only be read in order, the lengths; numpy computes the rest for all records at once;
Arrow copies keys and values out. A quarter of the time that one object a record takes. Pure.
Every length is checked before it is used: the checksum is the broker's, but what it covers is any producer's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from functools import partial
from operator import attrgetter
from typing import Any

import numpy as np
import pyarrow as pa
from crc32c import crc32c

from spark_connect_rt.errors import DataError
from spark_connect_rt.kafka.aiokafka_parts import codec
from spark_connect_rt.kafka.records.record_batches import Batch, CommittedBatches, marker_aborts, whole_batches
from spark_connect_rt.records.pipeline.columns import HEADERS_TYPE
from spark_connect_rt.records.pipeline.forth_machine import ForthMachine64, binary_pieces, binary_views

CHUNK_BYTES = 1024 * 1024  # of records taken apart at once: they should stay in the processor's cache
_LEAST_RECORD = 7  # bytes: its length, and each of its other parts in one
_ATTRIBUTES_BYTES = 1
_INT_BITS, _LONG_BITS = 32, 64  # of a varint
_LEAST_HEADER = 2
_DECODERS = {1: codec.gzip_decode, 2: codec.snappy_decode, 3: codec.lz4_decode, 4: codec.zstd_decode}
_PLACES = attrgetter("records"), attrgetter("end")  # of a batch in its answer
_Ints = np.ndarray[Any, np.dtype[Any]]

# For each batch: where its records begin and how many there are.
_RECORDS = """
input data  input batches
output lengths int32  output bodies int32
batches i-> stack 0 do
  batches i-> stack data seek
  batches i-> stack 0 do
    data zigzag-> stack  dup lengths <- stack  data pos bodies <- stack  data skip
  loop
loop
"""
# For each record: where its headers begin and how many there can be.
_HEADERS = """
input data  input records
output counts int32  output names int32  output values int32  output ends int32
records i-> stack 0 do
  records i-> stack data seek
  data zigzag-> stack  dup counts <- stack
  dup records i-> stack > if halt then
  0 do
    data zigzag-> stack  dup 0 < if halt then
    data pos dup names <- stack  over + names <- stack  data skip
    data zigzag-> stack  dup values <- stack  data pos values <- stack
    dup 0 > if data skip else drop then
  loop
  data pos ends <- stack
loop
"""


@dataclass(frozen=True, slots=True)
class Records:
    """Where records lie in ``data``; every array has an element for each of them. A length of -1 is a null."""

    data: _Ints
    offsets: _Ints
    timestamps: _Ints  # ms since the epoch
    keys: _Ints
    key_lengths: _Ints
    values: _Ints
    value_lengths: _Ints
    headers: _Ints  # of their count
    ends: _Ints

    def those(self, which: _Ints) -> Records:
        """Return some of them, by a mask or in ascending order."""
        return Records(self.data, *(getattr(self, field.name)[which] for field in fields(self)[1:]))

    def key_column(self) -> pa.Array:
        """Return the keys as a binary column; null where a record has none."""
        return binary_pieces(self.data, self.keys, self.key_lengths)

    def value_column(self) -> pa.Array:
        """Return the values as views of ``data``, or as a binary column that is null where a record has none."""
        views = binary_views(self.data, self.values, self.value_lengths)
        return binary_pieces(self.data, self.values, self.value_lengths) if views is None else views

    def headers_column(self) -> pa.Array | None:
        """Return the headers, None: there are none. Raises DataError."""
        with_headers = self.data[self.headers] != 0
        if not with_headers.any():
            return None
        return _headers(self.those(with_headers), with_headers)


def records_of(
    position: int, batches: bytes, aborted: Iterable[tuple[int, int]] | None, check_crcs: bool = True
) -> Iterator[tuple[Records | None, int]]:
    """Yield the records that count from ``position`` on, chunk by chunk, and the offset behind each chunk.

    Args:
        position: the offset that was asked for; a batch may begin before it.
        batches: record batches of the present format, the last one perhaps cut off.
        aborted: (producer id, first offset) of the aborted transactions in them; None: they count, too.
        check_crcs: whether to compare the checksums.

    Raises:
        DataError: a batch is damaged or of a codec that is not known. Chunks that were yielded before stay valid.
    """
    transactions, chunk, size, at = CommittedBatches(aborted), list[tuple[Batch, Any]](), 0, position
    yielded_to, view = position, memoryview(batches)
    for batch in whole_batches(batches):
        if check_crcs and crc32c(view[batch.checked_by()]) != batch.crc:
            raise DataError(f"the record batch at offset {batch.base_offset} is damaged (CRC)")
        counts = transactions.counts(batch, batch.is_control, partial(marker_aborts, batches, batch))
        if counts and batch.record_count and batch.next_offset > position:
            body = _body(view[batch.records : batch.end], batch)
            chunk.append((batch, body))
            size += len(body)
        at = max(at, batch.next_offset)
        if size >= CHUNK_BYTES:
            yield _records(chunk, view, position), at
            chunk, size, yielded_to = [], 0, at
    if at > yielded_to:
        yield _records(chunk, view, position) if chunk else None, at


def _body(records: memoryview, batch: Batch) -> Any:
    if batch.codec == 0:
        body: Any = records
    elif batch.codec in _DECODERS:
        try:
            body = _DECODERS[batch.codec](records)
        except Exception as error:
            raise _damaged(batch, f"compression: {error}") from error
    else:
        raise _damaged(batch, f"unknown compression {batch.codec}")
    if not 0 < batch.record_count <= len(body) // _LEAST_RECORD:
        raise _damaged(batch, f"{batch.record_count} records in {len(body)} bytes")
    return body


def _records(chunk: list[tuple[Batch, Any]], answer: memoryview, position: int) -> Records:
    """Take a chunk of an answer apart."""
    heads = [batch for batch, _ in chunk]
    data, starts, batch_ends = _laid_out(chunk, answer)
    counts = np.array([head.record_count for head in heads])
    total, behind = int(counts.sum()), np.cumsum(counts)
    lengths, bodies = _run(
        _RECORDS,
        {"data": data, "batches": np.stack((starts, counts), axis=1).ravel()},
        len(heads),
        {"lengths": total, "bodies": total},
        heads[0],
    )
    ends = bodies.astype(np.int64) + lengths
    _check(bool((ends[behind - 1] == batch_ends).all() and lengths.min() >= _LEAST_RECORD - 1), heads[0])
    time_deltas, at = _varints(data, bodies + np.int64(_ATTRIBUTES_BYTES), heads[0], _LONG_BITS)
    offset_deltas, at = _varints(data, at, heads[0])
    key_lengths, keys = _varints(data, at, heads[0])
    key_ends = keys + np.maximum(key_lengths, 0)
    value_lengths, values = _varints(data, key_ends, heads[0])
    headers = values + np.maximum(value_lengths, 0)
    # Each part begins behind the one before it, so all of them are within the record.
    _check(bool((headers < ends).all()), heads[0])
    _check(bool(((data[headers] != 0) | (headers + 1 == ends)).all()), heads[0])
    if any(head.has_append_time for head in heads):
        time_deltas = time_deltas * np.repeat([not head.has_append_time for head in heads], counts)
    times = [head.max_timestamp if head.has_append_time else head.first_timestamp for head in heads]
    offsets = np.repeat([head.base_offset for head in heads], counts) + offset_deltas
    timestamps = np.repeat(times, counts) + time_deltas
    found = Records(data, offsets, timestamps, keys, key_lengths, values, value_lengths, headers, ends)
    wanted = offsets >= position
    return found if wanted.all() else found.those(wanted)


def _laid_out(chunk: list[tuple[Batch, Any]], answer: memoryview) -> tuple[_Ints, _Ints, _Ints]:
    """Return memory with all records of a chunk, and where in it those of each batch begin and end.

    As they lie in the answer where none is compressed, with the batches' heads between them: no copy.
    """
    if all(batch.codec == 0 for batch, _ in chunk):
        first = chunk[0][0].records
        starts, ends = (np.array([place(batch) - first for batch, _ in chunk]) for place in _PLACES)
        return np.frombuffer(answer[first : first + int(ends[-1])], np.uint8), starts, ends
    ends = np.cumsum([len(body) for _, body in chunk])
    return np.frombuffer(b"".join(body for _, body in chunk), np.uint8), np.concatenate(([0], ends[:-1])), ends


def _run(program: str, inputs: dict[str, _Ints], count: int, sizes: dict[str, int], batch: Batch | None) -> list[_Ints]:
    """Return the outputs of a program, each of which must have its size; ``count`` goes before the second input."""
    (name, data), (rows_name, rows) = inputs.items()
    machine = ForthMachine64(program, output_initial_size=max(16, *sizes.values()) + 1)
    try:
        machine.run({name: data, rows_name: np.concatenate(([count], rows)).astype(np.int32)})
    except ValueError as error:  # "read beyond", "varint too big" ...
        raise _damaged(batch, str(error).partition("\n")[0]) from error
    return [np.asarray(machine.output(name)) for name in sizes]


def _varints(data: _Ints, at: _Ints, batch: Batch, bits: int = _INT_BITS) -> tuple[_Ints, _Ints]:
    """Return the signed numbers of so many bits at these places, and where they end.

    A place behind the data has an undefined number, and it ends there or behind it.
    """
    more = data.take(at, mode="clip")
    found, ends, shift = (more & 0x7F).astype(np.uint64), at + 1, 7
    continued = more >> 7
    while continued.any():
        _check(shift < bits, batch)
        more = data.take(ends, mode="clip") * continued
        found |= (more & 0x7F).astype(np.uint64) << np.uint64(shift)
        ends += continued
        continued, shift = more >> 7, shift + 7
    return (found >> np.uint64(1)).view(np.int64) ^ -(found & np.uint64(1)).view(np.int64), ends


def _headers(records: Records, with_headers: _Ints) -> pa.Array:
    """Return a list for each element of ``with_headers``; ``records`` are those that it says have some."""
    most = (records.ends - records.headers) // _LEAST_HEADER
    places = np.stack((records.headers, most), axis=1).ravel()
    sizes = dict.fromkeys(("counts", "names", "values", "ends"), len(most))
    counts, names, values, ends = _run(_HEADERS, {"data": records.data, "records": places}, len(most), sizes, None)
    if not ((counts > 0).all() and (ends == records.ends).all()):
        raise _damaged(None, "the headers of a record")
    value_lengths, value_at = values.reshape(-1, 2).T
    name_at, name_ends = names.reshape(-1, 2).T
    try:
        keys = binary_pieces(records.data, name_at, name_ends - name_at).cast(pa.string())
    except pa.ArrowInvalid as error:
        raise _damaged(None, "the name of a header is not valid UTF-8") from error
    pairs = pa.StructArray.from_arrays(
        [keys, binary_pieces(records.data, value_at, value_lengths)], fields=list(HEADERS_TYPE.value_type)
    )
    in_all = np.zeros(len(with_headers) + 1, np.int32)
    in_all[1:][with_headers] = counts
    return pa.ListArray.from_arrays(
        pa.array(np.cumsum(in_all, dtype=np.int32)), pairs, type=HEADERS_TYPE, mask=pa.array(~with_headers)
    )


def _check(is_good: bool, batch: Batch) -> None:
    if not is_good:
        raise _damaged(batch, "a length in it")


def _damaged(batch: Batch | None, why: str) -> DataError:
    place = f"the record batch at offset {batch.base_offset} or after it" if batch else "a record batch"
    return DataError(f"{place} is damaged: {why}")
