"""Debezium's placeholders for large values that did not change, and that PostgreSQL's change stream leaves out. Pure.

The placeholder (`unavailable.value.placeholder`) has a form for each type, as in Debezium's class
`UnchangedToastedPlaceholder`. It is a text, bytes, a list with that text, a list of the codes of its letters, or a map.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

PLACEHOLDER = "__debezium_unavailable_value"
"""The default of Debezium's setting `unavailable.value.placeholder`."""

_BYTES = PLACEHOLDER.encode()
_CODES = list(_BYTES)
_HSTORE = {PLACEHOLDER: PLACEHOLDER}
_TEXTS = pa.array([PLACEHOLDER, json.dumps(_HSTORE, separators=(",", ":"))])
# Java's UUID.nameUUIDFromBytes: an MD5 of the bytes without a namespace.
_UUID = str(uuid.UUID(bytes=hashlib.md5(_BYTES, usedforsecurity=False).digest(), version=3))
_LISTS: tuple[list[Any], ...] = ([PLACEHOLDER], [_UUID], [_BYTES], _CODES)
_FIRST: dict[str, list[Any]] = {"string": [PLACEHOLDER, _UUID], "binary": [_BYTES], "whole number": _CODES[:1]}


def unavailable_values(column: pa.Array) -> npt.NDArray[np.bool_] | None:
    """Return which values of a column are placeholders. None: no value is."""
    kind = column.type
    if pa.types.is_string(kind):
        found = pc.is_in(column, _TEXTS)
    elif pa.types.is_binary(kind):
        found = pc.equal(column, pa.scalar(_BYTES, kind))
    elif pa.types.is_list(kind) or pa.types.is_map(kind):
        return _of_lists(column)
    else:
        return None
    if not pc.any(found).as_py():
        return None
    mask: npt.NDArray[np.bool_] = found.fill_null(False).to_numpy(zero_copy_only=False)
    return mask


def _of_lists(column: pa.Array) -> npt.NDArray[np.bool_] | None:
    """Compare only lists and maps that begin as a placeholder does, because each one costs Python objects."""
    is_map = pa.types.is_map(column.type)
    elements = column.keys if is_map else column.values
    first = _FIRST.get(_kind_of(elements.type))
    offsets = column.offsets.to_numpy()
    rows = np.flatnonzero(np.diff(offsets) > 0)
    if first is None or not len(rows):
        return None
    begins = pc.is_in(elements.take(pa.array(offsets[rows])), pa.array(first, elements.type))
    mask = np.zeros(len(column), bool)
    for row in rows[begins.to_numpy(zero_copy_only=False)].tolist():
        value = column[row].as_py()
        mask[row] = value is not None and (dict(value) == _HSTORE if is_map else value in _LISTS)
    return mask if mask.any() else None


def _kind_of(kind: pa.DataType) -> str:
    return "whole number" if pa.types.is_integer(kind) else str(kind)
