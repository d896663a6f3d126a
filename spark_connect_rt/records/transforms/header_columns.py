"""Column forms of the transformations that add and drop headers (``InsertHeader``, ``HeaderFrom``, ``DropHeaders``).

What is added stands in ``more_headers``: no list of headers is made before the chain has ended.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_connect_rt.api.records import B, BatchHeader, Header, HeaderColumn
from spark_connect_rt.records.transforms.header_from import HeaderFrom
from spark_connect_rt.records.transforms.headers import DropHeaders, InsertHeader
from spark_connect_rt.records.transforms.struct_columns import flat_columns, struct_column


def insert_header_batch(inserting: InsertHeader, batch: B) -> B | None:
    """Return the batch with one more header, the same for all."""
    return replace(batch, more_headers=(*batch.more_headers, inserting.header))


def header_from_batch(taking: HeaderFrom, batch: B) -> B | None:
    """Return the batch with columns of its structs as headers."""
    schema, column = taking.batch_side(batch)
    columns = flat_columns(schema, column)
    if columns is None or column is None:
        return None
    members = dict(columns)
    added: list[BatchHeader] = []
    for name, header in taking.pairs:
        member = None if schema is None else schema.field(name)
        if name in members:
            added.append(HeaderColumn(header, members[name], member.schema if member else None))
        elif schema is None:
            added.append(Header(header, None))
        else:
            return None  # rows say which record lacks the field: all
    if taking.moved:
        rest = struct_column([(name, array) for name, array in columns if name not in taking.moved])
        if rest is None:
            return None
        batch = taking.changed_batch(batch, schema and taking.updated_schema(schema), rest)
    return replace(batch, more_headers=(*batch.more_headers, *added))


def drop_headers_batch(dropping: DropHeaders, batch: B) -> B | None:
    """Return the batch without some headers."""
    more = tuple(header for header in batch.more_headers if header.key not in dropping.names)
    return replace(batch, headers=_without(batch.headers, dropping.names), more_headers=more)


def _without(headers: pa.Array | None, names: frozenset[str]) -> pa.Array | None:
    """Return lists of headers without those of some names."""
    if headers is None:
        return None
    entries = pc.list_flatten(headers)
    kept = pc.invert(pc.is_in(pc.struct_field(entries, "key"), value_set=pa.array(sorted(names), pa.string())))
    lengths = pc.fill_null(pc.list_value_length(headers), 0).to_numpy(zero_copy_only=False)
    ends = np.concatenate(([0], np.cumsum(lengths)))
    kept_before = np.concatenate(([0], np.cumsum(kept.to_numpy(zero_copy_only=False))))
    return pa.ListArray.from_arrays(pa.array(kept_before[ends], pa.int32()), entries.filter(kept))
