"""What requests of the management API hold: JSON objects of known fields, texts, switches, numbers.

Owns their refusals, each a BadRequestError that names what is needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from spark_connect_rt.base.json_text import decode_json
from spark_connect_rt.errors import BadRequestError, DataError

DIGITS_MOST = 18


def json_object(data: bytes, known: Sequence[str]) -> dict[str, Any]:
    """Return a body that is an object of some of these fields.

    An empty body is none: ``{}`` is sent as JSON, which a page in a browser cannot send to a foreign address.
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
    """Return a field that is a text or left out."""
    value = body.get(name)
    if value is not None and not isinstance(value, str):
        raise BadRequestError(f"{name}: must be a string")
    return value or None


def object_field(body: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a field that is an object or left out."""
    value = body.get(name)
    if value is not None and not isinstance(value, dict):
        raise BadRequestError(f"{name}: must be an object")
    return value or {}


def switch_field(body: Mapping[str, Any], name: str, *, or_null: bool = False) -> bool:
    """Return a field that is true, false or left out; ``or_null``: null is false, too."""
    value = body.get(name, False)
    if isinstance(value, bool) or (or_null and value is None):
        return bool(value)
    raise BadRequestError(f"{name}: must be true or false")


def whole_number(text: str | None, name: str, digits: int = DIGITS_MOST) -> int | None:
    """Return a parameter as a number that is not negative; None where it is not given."""
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= digits):
        raise BadRequestError(f"{name}: must be a whole number of at most {digits} digits, and not negative")
    return int(text)


def number_up_to(text: str | None, name: str, default: int, most: int) -> int:
    """Return a parameter as a number that is not negative; one above ``most`` is that, none given the default."""
    found = whole_number(text or None, name, digits=20)
    return default if found is None else min(found, most)
