"""Reads answers of the API without trusting them: a part that is missing or of another type is nothing. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any


def mapping(value: Any) -> Mapping[str, Any]:
    """Return a JSON object, empty where there is none."""
    return value if isinstance(value, Mapping) else {}


def objects(value: Any) -> tuple[Mapping[str, Any], ...]:
    """Return the objects of a JSON list, none where there is none."""
    if not isinstance(value, Sequence) or isinstance(value, str):
        return ()
    return tuple(item for item in value if isinstance(item, Mapping))


def texts(value: Any) -> tuple[str, ...]:
    """Return the values of a JSON list as texts."""
    if not isinstance(value, Sequence) or isinstance(value, str):
        return ()
    return tuple(str(item) for item in value)


def number(value: Any) -> float | None:
    """Return a number, None for anything else."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def whole(value: Any) -> int | None:
    """Return a whole number, None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def text(value: Any) -> str:
    """Return a text; empty for null, other values as compact JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def json_text(value: Any) -> str:
    """Return a value as JSON to read and to edit."""
    return json.dumps(value, ensure_ascii=False, indent=2, default=str)
