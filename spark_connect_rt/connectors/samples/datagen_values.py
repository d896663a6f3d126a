"""What datagen generates: values that are a function of (seed, field, n) alone, a whole column at once. Pure.

The numbers are splitmix64's, so record n is the same whatever batch it comes in, and on every machine.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_connect_rt.api.data import logical
from spark_connect_rt.api.data import schema as s
from spark_connect_rt.api.data.schema import Field, Schema, Type

_GOLDEN = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Generated:
    """One field: its schema, and the column of its values for the numbers and random words of some records."""

    name: str
    schema: Schema
    column: Callable[[Any, Any], pa.Array]
    null_per_mille: int = 0


def random_words(seed: int, stream: int, numbers: Any) -> Any:
    """Return 64 random bits for each number, as uint64; ``stream`` tells fields apart."""
    start = np.uint64((seed * 0xD1342543DE82EF95 + stream * 0x2545F4914F6CDD1D) & _MASK)
    with np.errstate(over="ignore"):
        x = start + (numbers.astype(np.uint64) + np.uint64(1)) * np.uint64(_GOLDEN)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def rows(fields: Sequence[Generated], seed: int, first: int, count: int) -> pa.StructArray:
    """Return records ``first`` to ``first + count - 1`` as structs."""
    numbers = np.arange(first, first + count, dtype=np.int64)
    columns = []
    for stream, field in enumerate(fields):
        column = field.column(numbers, random_words(seed, 2 * stream, numbers))
        if field.null_per_mille:
            chosen = random_words(seed, 2 * stream + 1, numbers) % np.uint64(1000) < np.uint64(field.null_per_mille)
            column = pc.if_else(pa.array(chosen), pa.scalar(None, column.type), column)
        columns.append(column)
    return pa.StructArray.from_arrays(columns, names=[field.name for field in fields])


def row_schema(fields: Sequence[Generated], name: str | None) -> Schema:
    """Return the Connect schema of the rows."""
    members = tuple(Field(field.name, at, field.schema) for at, field in enumerate(fields))
    return Schema(Type.STRUCT, name=name, fields=members)


def parse_fields(text: str) -> tuple[Generated, ...]:
    """Return the fields of ``{"name": {"kind": ..., ...}}``, or of a quickstart's name.

    Raises ValueError saying what is wrong with which field.
    """
    if text.strip() in QUICKSTARTS:
        given: Any = QUICKSTARTS[text.strip()]
    else:
        try:
            given = json.loads(text)
        except ValueError as error:
            raise ValueError(f"must be one of {', '.join(QUICKSTARTS)} or JSON: {error}") from error
    if not isinstance(given, dict) or not given:
        raise ValueError("must be an object: field -> how it is generated")
    return tuple(_field(name, how) for name, how in given.items())


def _field(name: str, how: Any) -> Generated:
    if not isinstance(how, dict) or how.get("kind") not in _KINDS:
        raise ValueError(f"field {name}: kind must be one of {', '.join(_KINDS)}")
    make, settings = _KINDS[how["kind"]]
    unknown = how.keys() - settings.keys() - {"kind", "null_per_mille"}
    if unknown:
        raise ValueError(f"field {name}: {how['kind']} does not take {', '.join(sorted(unknown))}")
    nulls = how.get("null_per_mille", 0)
    if not isinstance(nulls, int) or not 0 <= nulls <= 1000:
        raise ValueError(f"field {name}: null_per_mille must be 0 to 1000")
    try:
        schema, column = make({**settings, **how})
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"field {name}: {error}") from error
    return Generated(name, schema.as_optional(nulls > 0), column, nulls)


Made = tuple[Schema, Callable[[Any, Any], pa.Array]]


def _sequence(how: Mapping[str, Any]) -> Made:
    start, step = int(how["start"]), int(how["step"])
    return s.INT64, lambda numbers, _: pa.array(numbers * step + start)


def _integers(how: Mapping[str, Any]) -> Made:
    least, most = int(how["min"]), int(how["max"])
    if not -(1 << 63) <= least <= most < 1 << 63 or most - least >= _MASK:
        raise ValueError("min must not be above max")
    span = np.uint64(most - least + 1)
    return s.INT64, lambda _, words: pa.array((words % span).astype(np.int64) + least)


def _small(how: Mapping[str, Any]) -> Made:
    least, most = int(how["min"]), int(how["max"])
    if not -(1 << 31) <= least <= most < 1 << 31:
        raise ValueError("min must not be above max, both of 32 bits")
    _, column = _integers(how)
    return s.INT32, lambda numbers, words: column(numbers, words).cast(pa.int32())


def _floats(how: Mapping[str, Any]) -> Made:
    least, most, digits = float(how["min"]), float(how["max"]), int(how["digits"])
    if not least <= most:
        raise ValueError("min must not be above max")
    return s.FLOAT64, lambda _, words: pa.array(
        np.round(least + (most - least) * (words >> np.uint64(11)) / float(1 << 53), digits)
    )


def _choice(how: Mapping[str, Any]) -> Made:
    options = how["of"]
    if not isinstance(options, list) or not options or not all(isinstance(option, str) for option in options):
        raise ValueError("of must list texts")
    texts = pa.array(options, pa.string())
    return s.STRING, lambda _, words: texts.take(pa.array((words % np.uint64(len(options))).astype(np.int64)))


def _text(how: Mapping[str, Any]) -> Made:
    prefix, size = str(how["prefix"]), int(how["distinct"])
    if size < 1:
        raise ValueError("distinct must be at least 1")
    _, column = _integers({"min": 0, "max": size - 1})
    return s.STRING, lambda numbers, words: pc.binary_join_element_wise(
        pa.scalar(prefix), column(numbers, words).cast(pa.string()), pa.scalar("")
    )


def _booleans(how: Mapping[str, Any]) -> Made:
    limit = np.uint64(int(how["true_per_mille"]))
    return s.BOOLEAN, lambda _, words: pa.array(words % np.uint64(1000) < limit)


def _timestamps(how: Mapping[str, Any]) -> Made:
    start, step = int(how["start_ms"]), int(how["step_ms"])
    kind = pa.timestamp("ms", tz="UTC")
    return logical.timestamp_schema(), lambda numbers, _: pa.array(numbers * step + start).cast(kind)


_KINDS: dict[str, tuple[Callable[[Mapping[str, Any]], Made], dict[str, Any]]] = {
    "sequence": (_sequence, {"start": 0, "step": 1}),
    "int": (_small, {"min": 0, "max": 2**31 - 1}),
    "long": (_integers, {"min": 0, "max": 2**62}),
    "double": (_floats, {"min": 0, "max": 1, "digits": 6}),
    "choice": (_choice, {"of": None}),
    "text": (_text, {"prefix": "", "distinct": 1_000_000}),
    "boolean": (_booleans, {"true_per_mille": 500}),
    "timestamp": (_timestamps, {"start_ms": 1_700_000_000_000, "step_ms": 1_000}),
}
_REGIONS = [f"Region_{number}" for number in range(1, 10)]
QUICKSTARTS: dict[str, dict[str, Any]] = {
    "orders": {
        "ordertime": {"kind": "timestamp"},
        "orderid": {"kind": "sequence"},
        "itemid": {"kind": "text", "prefix": "Item_", "distinct": 1000},
        "orderunits": {"kind": "double", "min": 0.1, "max": 10},
        "city": {"kind": "text", "prefix": "City_", "distinct": 100},
    },
    "users": {
        "registertime": {"kind": "long", "min": 1_487_715_775_521, "max": 1_519_273_364_600},
        "userid": {"kind": "text", "prefix": "User_", "distinct": 10},
        "regionid": {"kind": "choice", "of": _REGIONS},
        "gender": {"kind": "choice", "of": ["MALE", "FEMALE", "OTHER"]},
    },
    "pageviews": {
        "viewtime": {"kind": "sequence", "start": 1, "step": 10},
        "userid": {"kind": "text", "prefix": "User_", "distinct": 10},
        "pageid": {"kind": "text", "prefix": "Page_", "distinct": 100},
    },
}
