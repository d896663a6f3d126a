"""Values of the ports as JSON has them: the one serializer of the REST API.

Owns: dataclass -> object, by the metadata that base/json_text.py adds to its fields; a named tuple is an object,
too. Bytes are made of it by base/json_text.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

_PLAIN = frozenset({str, int, float, bool, type(None)})


def as_json(value: Any) -> Any:
    """Return dicts, lists and plain values, fields and keys in order. A value without a JSON form is unchanged."""
    kind: Any = type(value)
    return value if kind in _PLAIN else _writer_of(kind)(value)


@cache
def _writer_of(kind: Any) -> Callable[[Any], Any]:
    if is_dataclass(kind):
        return _fields_writer(kind)
    if hasattr(kind, "_fields"):
        return lambda value: _object(dict(zip(kind._fields, value, strict=True)))
    if issubclass(kind, Mapping):
        return _object
    if issubclass(kind, list | tuple):
        return _list
    return lambda value: value


def _list(value: Sequence[Any]) -> list[Any]:
    if _PLAIN.issuperset(map(type, value)):
        return list(value)
    return [as_json(item) for item in value]


def _object(value: Mapping[str, Any]) -> Mapping[str, Any]:
    if type(value) is dict and _PLAIN.issuperset(map(type, value.values())):
        return value  # a configuration: lists of connectors hold thousands of them
    return {key: as_json(item) for key, item in value.items()}


def _fields_writer(kind: Any) -> Callable[[Any], dict[str, Any]]:
    shown = [
        (field.name, field.metadata.get("alias", field.name), "exclude_if" in field.metadata) for field in fields(kind)
    ]
    plain = _PLAIN

    def write(value: Any) -> dict[str, Any]:
        found = {}
        for name, key, may_be_left_out in shown:
            part = getattr(value, name)
            if part or not may_be_left_out:
                found[key] = part if type(part) in plain else as_json(part)
        return found

    return write
