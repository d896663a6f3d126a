"""JSON bodies of requests: their decoding and refusals in Jackson's words, offsets, and fields of the management API.

It imports no web framework, because commands that read offsets from a file use it, too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from spark_connect_rt.base.json_text import decode_json
from spark_connect_rt.errors import BadRequestError, ConnectError, DataError
from spark_connect_rt.topics.offset_changes import OffsetPair

DIGITS_MOST = 18
NOTHING = "Partitions / offsets need to be provided for an alter offsets request"
_CLASSES = ("ConnectorOffsets", "ConnectorOffset")


class UnreadableBodyError(ConnectError):
    """The body is not the JSON that this endpoint reads. The answer is 500, as in Java."""

    code = "CRT-1032"


def parsed(body: bytes, decoder: json.JSONDecoder) -> Any:
    """Return the document in ``body``: UTF-8, -16 or -32, with or without a mark, as Jackson. Raises ValueError."""
    return decoder.decode(body.decode(json.detect_encoding(body)))


def unknown_field(field: str, known: Sequence[str]) -> str:
    """Return Jackson's message about a field that the request class does not have."""
    names = ", ".join(f'"{name}"' for name in known)
    return f'Unrecognized field "{field}" ({len(known)} known properties: {names})'


def wrong_type(wanted: str, value: Any) -> str:
    """Return Jackson's message about a value whose type is not ``wanted``."""
    if isinstance(value, (int, float)) and wanted in _CLASSES:
        return f"Cannot construct instance of `{wanted}` from the number {value}"
    kinds: dict[type[Any], tuple[str, str]] = {dict: ("Object", "START_OBJECT"), list: ("Array", "START_ARRAY")}
    kind, token = kinds.get(type(value), ("scalar", "VALUE_STRING"))
    return f"Cannot deserialize value of type `{wanted}` from {kind} value (token `JsonToken.{token}`)"


def refuse_constant(literal: str) -> None:
    """Raise ValueError for ``NaN`` and ``Infinity``, which the json module accepts and JSON does not."""
    raise ValueError(f"{literal} is not JSON")


# ---- Fields of the management API. Each refusal is a BadRequestError that names the rule ----


def json_object(data: bytes, known: Sequence[str]) -> dict[str, Any]:
    """Return a body that is an object of some of these fields.

    An empty body is refused. A client without fields sends ``{}`` as JSON, because a page in a browser cannot send JSON
    to a foreign address.
    """
    try:
        body = decode_json(data) if data.strip() else None
    except DataError as error:
        raise BadRequestError(f"the body is {error}") from error
    if not isinstance(body, dict):
        raise BadRequestError(
            f"the body must be a JSON object with fields of {', '.join(known)}" if known else "the body must be {}"
        )
    if unknown := sorted(set(body) - set(known)):
        what = f"Use {', '.join(known)}" if known else "The body must be {}"
        raise BadRequestError(f"unknown fields in the body: {', '.join(unknown)[:200]}. {what}")
    return body


def text_field(body: Mapping[str, Any], name: str) -> str | None:
    """Return a text field, or None if it is absent or empty."""
    value = body.get(name)
    if value is not None and not isinstance(value, str):
        raise BadRequestError(f"{name}: must be a string")
    return value or None


def object_field(body: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return an object field, or an empty object if it is absent."""
    value = body.get(name)
    if value is not None and not isinstance(value, dict):
        raise BadRequestError(f"{name}: must be an object")
    return value or {}


def switch_field(body: Mapping[str, Any], name: str, *, or_null: bool = False) -> bool:
    """Return a true or false field, or False if it is absent. ``or_null`` True: null is false, too."""
    value = body.get(name, False)
    if isinstance(value, bool) or (or_null and value is None):
        return bool(value)
    raise BadRequestError(f"{name}: must be true or false")


def whole_number(text: str | None, name: str, digits: int = DIGITS_MOST) -> int | None:
    """Return a parameter as a whole number of at least 0, or None without one."""
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= digits):
        raise BadRequestError(f"{name}: must be a whole number of at most {digits} digits, and not negative")
    return int(text)


def number_up_to(text: str | None, name: str, default: int, most: int) -> int:
    """Return a parameter as a whole number from 0 to ``most``, which replaces a larger one, or the default."""
    found = whole_number(text or None, name, digits=20)
    return default if found is None else min(found, most)


# ---- ``PATCH /connectors/{name}/offsets`` (Java ``ConnectorOffsets``): numbers stay numbers ----


def read_offsets(body: bytes) -> list[OffsetPair]:
    """Return (partition, offset) in the order of the body. Raises UnreadableBodyError, BadRequestError if empty."""
    fields = _object(read_any(body), ("offsets",), "ConnectorOffsets")
    entries = fields.get("offsets")
    if entries is not None and not isinstance(entries, list):
        raise UnreadableBodyError(wrong_type("ArrayList<ConnectorOffset>", entries))
    if not entries:
        raise BadRequestError(NOTHING)
    return [offset_pair(entry) for entry in entries]


def offset_pair(entry: Any) -> OffsetPair:
    """Return (partition, offset) of one entry of ``offsets``. Raises UnreadableBodyError."""
    fields = _object(entry, ("partition", "offset"), "ConnectorOffset")
    partition, offset = fields.get("partition"), fields.get("offset")
    for name, value in (("partition", partition), ("offset", offset)):
        if value is not None and not isinstance(value, dict):
            raise UnreadableBodyError(f"{wrong_type('Map', value)} ('{name}' of an entry of 'offsets')")
    return partition, offset


def _object(value: Any, known: tuple[str, ...], what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UnreadableBodyError(wrong_type(what, value))
    for name in value:
        if name not in known:
            raise UnreadableBodyError(unknown_field(name, known))
    return value


def read_any(body: bytes) -> Any:
    """Return a JSON body whose numbers stay numbers. Raises UnreadableBodyError."""
    try:
        return parsed(body, json.JSONDecoder(parse_constant=refuse_constant))
    except (ValueError, RecursionError) as error:
        raise UnreadableBodyError(f"Cannot deserialize value: the request body is not JSON: {error}") from error
