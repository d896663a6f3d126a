"""JSON trees <-> bytes, as Jackson writes and reads them, at orjson's speed.

orjson differs from Jackson in a few spellings (``1e+16``, lower-case escapes, NaN, integers past 64 bits). Text
that may hold one of them is written a second time, exactly; everything else is orjson's bytes unchanged.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import orjson

from spark_connect_rt.api.data.java_numbers import java_single, to_single
from spark_connect_rt.base.json_text import java_double
from spark_connect_rt.errors import DataError

# An exponent, a double below 1e-3, an integer of 19 digits (also a double from 1e7 on), a null that may be NaN.
_MAYBE_INEXACT = re.compile(rb"\de[+-]?\d|0\.000|\d{19}|\d{8,}\.|null")
_ESCAPE = re.compile(rb"\\\\|\\u00[01][a-f]")
_NUMBER_WITH_LEADING_ZEROS = re.compile(rb'"(?:[^"\\]|\\.)*+"|(?<![\d.eE+\-])(-?)0+(?=\d)', re.DOTALL)
_OPTIONS = orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_DATACLASS

INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1
_UNREADABLE = "Converting byte[] to Kafka Connect data failed due to serialization error: "  # Java's words


def dump_json(tree: Any, other: Callable[[Any], Any] | None = None) -> bytes:
    """Return compact JSON of a tree; ``other`` converts values without a JSON form to a tree. Raises DataError."""
    try:
        text = orjson.dumps(tree, default=other, option=_OPTIONS)
        if _MAYBE_INEXACT.search(text):
            text = orjson.dumps(exact_tree(tree, other), default=other, option=_OPTIONS)
    except (orjson.JSONEncodeError, RecursionError) as error:
        cause = error.__cause__
        raise DataError(f"no JSON form: {cause if isinstance(cause, DataError) else error}") from error
    return _ESCAPE.sub(_upper_case, text) if b"\\u00" in text else text


def dump_exact(tree: Any) -> bytes:
    """Return compact JSON of a tree whose floats are ``java_float_tree``'s and whose integers have at most 64 bits."""
    try:
        text = orjson.dumps(tree, option=_OPTIONS)
    except (orjson.JSONEncodeError, RecursionError) as error:
        raise DataError(f"no JSON form: {error}") from error
    return _ESCAPE.sub(_upper_case, text) if b"\\u00" in text else text


def exact_tree(tree: Any, other: Callable[[Any], Any] | None = None) -> Any:
    """Return the tree with every number orjson would spell differently in Java's spelling."""
    if isinstance(tree, float):
        return java_float_tree(tree)
    if isinstance(tree, int) and not INT64_MIN <= tree <= INT64_MAX:
        raise DataError(f"integer {tree} does not fit 64 bits")
    if isinstance(tree, Mapping):
        return {key: exact_tree(part, other) for key, part in tree.items()}
    if isinstance(tree, list | tuple):
        return [exact_tree(part, other) for part in tree]
    if tree is None or isinstance(tree, str | int | orjson.Fragment):
        return tree
    return exact_tree(other(tree), other) if other else tree


def java_float_tree(number: float) -> Any:
    """Return a double as JSON that reads as Java's: quoted when it is not a number."""
    text = java_double(number)
    return orjson.Fragment(text) if math.isfinite(number) else text


def plain_float_tree(number: float) -> Any:
    """Return the result of ``java_float_tree``. Most numbers stay floats, because orjson writes them like Java."""
    number = float(number)
    return number if 1e-3 <= number < 1e7 or -1e7 < number <= -1e-3 else java_float_tree(number)


def java_single_tree(number: float) -> Any:
    """Return a FLOAT32 as JSON: the shortest digits that give the same 4 bytes. Raises DataError: too large."""
    single = to_single(number)
    if math.isinf(single) and not math.isinf(number):
        raise DataError(f"{number} does not fit FLOAT32")
    text = java_single(single)
    return orjson.Fragment(text) if math.isfinite(single) else text


def decimal_tree(number: Decimal) -> Any:
    """Return a decimal as a JSON number (BigDecimal's toString is Python's)."""
    return orjson.Fragment(str(number))


def load_json(data: bytes) -> Any:
    """Return the tree of one JSON text. Raises DataError: not JSON, or more than one value."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        repaired = _NUMBER_WITH_LEADING_ZEROS.sub(
            lambda found: found.group(1) if found.group(1) is not None else found.group(), data
        )
        if repaired != data:  # Connect's reader accepts 007
            try:
                return orjson.loads(repaired)
            except orjson.JSONDecodeError:
                pass
        raise DataError(f"{_UNREADABLE}{error}") from error


def load_json_with_decimals(data: bytes) -> Any:
    """Return the tree with every number that has a point or exponent as Decimal: no digit is lost."""
    try:
        return json.loads(data, parse_float=Decimal)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{_UNREADABLE}{error}") from error


def _upper_case(found: re.Match[bytes]) -> bytes:
    escape = found.group()
    return escape if escape == b"\\\\" else escape[:5] + escape[5:].upper()
