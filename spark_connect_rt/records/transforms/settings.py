"""What several transformations declare alike: short forms of ConfigKey, and the checks of their settings."""

from __future__ import annotations

from typing import Any

from spark_connect_rt.config.config_def import HIGH, MEDIUM, REQUIRED, ConfigKey, Importance, Type
from spark_connect_rt.config.java_regex import java_pattern
from spark_connect_rt.config.validators import Check, anything

REPLACE_NULL = "replace.null.with.default"
REPLACE_NULL_KEY = ConfigKey(
    REPLACE_NULL, Type.BOOLEAN, True, MEDIUM, "Take a field's default where the field is null; false: leave the null."
)


def required_text(name: str, doc: str, importance: Importance = HIGH, check: Check = anything) -> ConfigKey:
    """Return a setting without a default that is text."""
    return ConfigKey(name, Type.STRING, REQUIRED, importance, doc, check)


def optional_text(name: str, doc: str, importance: Importance = MEDIUM, check: Check = anything) -> ConfigKey:
    """Return a setting that is text, or not set."""
    return ConfigKey(name, Type.STRING, None, importance, doc, check)


def required_list(name: str, doc: str) -> ConfigKey:
    """Return a setting without a default that lists at least one word."""
    return ConfigKey(name, Type.LIST, REQUIRED, HIGH, doc, non_empty_list)


def non_empty_list(value: Any) -> str | None:
    """Complain about an empty list."""
    return None if value else "Empty list"


def given(value: Any) -> str | None:
    """Complain about a setting that is not there."""
    return "entry must be non null" if value is None else None


def non_empty_text(value: Any) -> str | None:
    """Complain about empty text."""
    return "String must be non-empty" if value is not None and not value else None


def valid_regex(value: Any) -> str | None:
    """Complain about text that is no regular expression."""
    if value is None:
        return None
    try:
        java_pattern(value)
    except ValueError as error:
        return f"Invalid regex: {error}"
    return None


def java_split(text: str, separator: str = ":") -> list[str]:
    """Return ``String.split``: empty parts at the end do not count."""
    parts = text.split(separator)
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return parts
