"""JSON text as Connect's schemaless JsonConverter (Jackson) writes it: compact, UTF-8, Java's numbers.

Owns: value -> bytes and bytes -> value for records of the internal topics. Knows no record kinds.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, ClassVar, NoReturn

import orjson

from spark_connect_rt.errors import DataError

_TO_ESCAPE = re.compile(r'[\x00-\x1f"\\]')
_SHORT = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}
_WHITESPACE = " \t\n\r"
_TEXT = frozenset({str})


def encode_json(value: Any) -> bytes:
    """Return compact JSON; dict order is kept. Raises DataError for a type JSON has no form for."""
    parts: list[str] = []
    _write(value, parts)
    try:
        return "".join(parts).encode("utf-8")
    except UnicodeEncodeError as error:  # a lone surrogate: Jackson refuses it as well
        raise DataError(f"text that UTF-8 cannot hold: {error.reason}", stage="JSON") from error


def encode_finite_json(value: Any) -> bytes:
    """Return the result of ``encode_json``, ten times as fast; no number in ``value`` is infinite or NaN.

    A library writes it. The parts that Java writes differently (numbers with a point, control characters) are
    rewritten.
    """
    try:
        quick = orjson.dumps(value)
    except TypeError:  # something it does not know, or that has no form at all
        return encode_json(value)
    if b"\\u00" in quick:
        return encode_json(value)
    only_texts = type(value) is list and _TEXT.issuperset(map(type, value))  # the names of thousands of connectors
    return quick if only_texts or not _holds_points(quick) else encode_json(value)


def encode_quick_json(value: Any) -> bytes:
    """Return compact JSON as any reader takes it; numbers need not be Java's. NaN and infinities become null."""
    try:
        return orjson.dumps(value)
    except TypeError:  # text that UTF-8 cannot hold, integers of more than 64 bits
        return json.dumps(value).encode()


def decode_quick_json(data: bytes) -> Any:
    """Return the value that ``encode_quick_json`` wrote. Raises DataError."""
    try:
        return orjson.loads(data)
    except ValueError:
        return decode_json(data)


def tellable(text: str) -> str:
    """Return ``text`` as UTF-8 can hold it: halves of surrogate pairs (undecodable file names) are spelled out."""
    return text.encode(errors="backslashreplace").decode()


def decode_json(data: bytes) -> Any:
    """Return the value. Like Jackson, it ignores text after the first value. Raises DataError."""
    try:
        text = data.decode("utf-8").lstrip(_WHITESPACE)
        value, _ = _DECODER.raw_decode(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"not JSON: {error}", stage="JSON") from error
    return value


def java_double(number: float) -> str:
    """Return ``Double.toString``: ``1.0E10``, ``1.0E-5``, plain between 1e-3 and 1e7."""
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    if number == 0 or 1e-3 <= abs(number) < 1e7:
        return repr(number)
    digits, exponent = _digits(abs(number))
    return f"{'-' if number < 0 else ''}{digits[0]}.{digits[1:] or '0'}E{exponent}"


def java_string(text: str) -> str:
    """Return the JSON string literal; control characters have upper-case hex, as Jackson's."""
    return f'"{_TO_ESCAPE.sub(_escape, text)}"' if _TO_ESCAPE.search(text) else f'"{text}"'


def _escape(found: re.Match[str]) -> str:
    character = found.group()
    return _SHORT.get(character) or f"\\u{ord(character):04X}"


def _digits(number: float) -> tuple[str, int]:
    """Return the shortest significant digits that read back, and the exponent of the first of them."""
    mantissa, _, exponent = repr(number).partition("e")
    whole, _, fraction = mantissa.partition(".")
    fraction = "" if fraction == "0" else fraction
    shift = int(exponent or 0) + len(whole) - 1
    digits = whole + fraction
    stripped = digits.lstrip("0")
    return stripped.rstrip("0") or "0", shift - (len(digits) - len(stripped))


def _holds_points(document: bytes) -> bool:
    """Return whether a number has a point or an exponent. No regular expression: a megabyte would take it 60 ms."""
    without_escapes = document.replace(b"\\\\", b"").replace(b'\\"', b"")
    outside_of_texts = b"".join(without_escapes.split(b'"')[::2])
    numbers = outside_of_texts.replace(b"true", b"").replace(b"false", b"")
    return b"." in numbers or b"e" in numbers


def _write(value: Any, parts: list[str]) -> None:
    if value is None:
        parts.append("null")
    elif isinstance(value, bool):
        parts.append("true" if value else "false")
    elif isinstance(value, str):
        parts.append(java_string(value))
    elif isinstance(value, int):
        parts.append(str(value))
    elif isinstance(value, float):
        text = java_double(value)
        parts.append(text if math.isfinite(value) else f'"{text}"')
    else:
        _write_container(value, parts)


def _write_container(value: Any, parts: list[str]) -> None:
    if isinstance(value, dict):
        opener = "{"
        for key, item in value.items():
            parts.append(f"{opener}{java_string(_key(key))}:")
            _write(item, parts)
            opener = ","
        parts.append("{}" if opener == "{" else "}")
    elif isinstance(value, list | tuple):
        opener = "["
        for item in value:
            parts.append(opener)
            _write(item, parts)
            opener = ","
        parts.append("[]" if opener == "[" else "]")
    else:
        raise DataError(f"{type(value).__name__} has no JSON form", stage="JSON")


def _key(key: object) -> str:
    if not isinstance(key, str):
        raise DataError(f"a JSON object's key must be a string, not {type(key).__name__}", stage="JSON")
    return key


def _refuse(literal: str) -> NoReturn:
    raise ValueError(f"{literal} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse)


# The JSON form of a dataclass of the ports, declared once, next to its fields.
#
# Owns: the metadata of fields. The keys are pydantic's names for the same (``alias``, ``description``, ``exclude_if``,
# ``json_schema_extra``), so that it makes the JSON Schema from the class; rest/json_values.py writes the JSON by them.
# Nothing here imports pydantic: a worker's start does not pay for it.


class JsonShape:
    """An object with the fields of the dataclass and no others, each always there unless it is ``left_out``."""

    __slots__ = ()
    __pydantic_config__: ClassVar[Mapping[str, Any]] = {
        "extra": "forbid",
        "json_schema_serialization_defaults_required": True,
    }


def described(description: str, **schema: Any) -> dict[str, Any]:
    """Return the metadata of a field with a description for its readers; ``schema`` adds to its JSON Schema."""
    return {"description": description, "json_schema_extra": schema}


def one_of(values: Iterable[str], description: str = "") -> dict[str, Any]:
    """Return the metadata of a field whose text is one of these."""
    return {"json_schema_extra": {"enum": list(values)}} | (described(description) if description else {})


def renamed(alias: str, description: str) -> dict[str, Any]:
    """Return the metadata of a field with another name in JSON."""
    return {"alias": alias, "description": description}


def left_out(description: str, **schema: Any) -> dict[str, Any]:
    """Return the metadata of a field that JSON has only when it holds something; it is never null there."""

    def never_null(found: dict[str, Any]) -> None:
        found.pop("default", None)
        (shape,) = (alternative for alternative in found.pop("anyOf") if alternative.get("type") != "null")
        found.update(shape | schema)

    return {"description": description, "exclude_if": _is_empty, "json_schema_extra": never_null}


def _is_empty(value: object) -> bool:
    return not value


# Keys and values of the offset topic: bytes <-> connector, partition, offset (``OffsetStorageWriter``).
#
# Owns: ``["connector",{partition}]`` keys, ``{offset}`` values, the types they may hold (``OffsetUtils``).
# Bytes matter: Java finds and compacts offsets by the exact bytes of the key, whose field order is a HashMap's.


def canonical(value: Any) -> Hashable:
    """Return a hashable equal for equal JSON values whatever their field order; 1, 1.0 and true differ."""
    if isinstance(value, Mapping):
        return ("map", frozenset((key, canonical(item)) for key, item in value.items()))
    if isinstance(value, list | tuple):
        return ("list", *(canonical(item) for item in value))
    return (type(value).__name__, value)
