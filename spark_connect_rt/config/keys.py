"""Settings of the kinds that most connectors have, in few words; and the check that text is JSON."""

from __future__ import annotations

import json
from typing import Any

from spark_connect_rt.config.config_def import LOW, MEDIUM, ConfigKey, Importance, Type
from spark_connect_rt.config.validators import AtLeast, Check, anything


def text(
    name: str,
    doc: str,
    default: Any = None,
    importance: Importance = MEDIUM,
    check: Check = anything,
    *,
    trimmed: bool = True,
) -> ConfigKey:
    """Return a setting that is text; not ``trimmed``, blanks and line ends around it belong to it."""
    return ConfigKey(name, Type.STRING, default, importance, doc, check, trimmed=trimmed)


def number(name: str, doc: str, default: int, least: int, importance: Importance = LOW) -> ConfigKey:
    """Return a setting that is a whole number, ``least`` or more."""
    return ConfigKey(name, Type.LONG, default, importance, doc, AtLeast(least))


def json_object(value: Any) -> str | None:
    """Complain about text that is no JSON object."""
    if value is None:
        return None
    try:
        found = json.loads(getattr(value, "value", value))
    except ValueError as error:
        return f"is not valid JSON: {error}"
    return None if isinstance(found, dict) else "must be a JSON object"
