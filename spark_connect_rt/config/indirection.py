"""``${alias:path:key}`` in settings: find the references, put looked-up values in (Java ``ConfigTransformer``).

Pure: the caller brings the look-up. A looked-up value is not searched again; what cannot be found stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple

_REFERENCE = re.compile(r"\$\{([^}]*?):(?:([^}]*?):)?([^}]*?)\}")

Lookup = Callable[[str, str, AbstractSet[str]], Mapping[str, str]]
"""(alias, path, keys) -> the values found; an unknown alias has none."""


class Reference(NamedTuple):
    """One ``${alias:path:key}``; without a path it is empty."""

    alias: str
    path: str
    key: str


def references(value: str | None) -> list[Reference]:
    """Return the references in one value, in order."""
    found = _REFERENCE.finditer(value or "")
    return [Reference(match.group(1), match.group(2) or "", match.group(3)) for match in found]


def resolve(config: Mapping[str, str], lookup: Lookup) -> dict[str, str]:
    """Return the settings with every reference that can be looked up replaced.

    Each (alias, path) is looked up once, with all keys that any setting wants of it.
    """
    wanted = _wanted(config.values())
    found = {place: lookup(*place, frozenset(keys)) for place, keys in wanted.items()}
    return {name: _replaced(value, found) for name, value in config.items()}


def restore(
    task_config: Mapping[str, str], connector_config: Mapping[str, str], resolved: Mapping[str, str]
) -> dict[str, str]:
    """Return a task's settings with values that came out of a reference turned back into the reference.

    Args:
        connector_config: as the user wrote it; ``resolved`` is the same with its references replaced.
    """
    return {
        name: connector_config[name]
        if references(connector_config.get(name)) and resolved.get(name) == value
        else value
        for name, value in task_config.items()
    }


def _wanted(values: Iterable[str | None]) -> dict[tuple[str, str], set[str]]:
    wanted: dict[tuple[str, str], set[str]] = {}
    for value in values:
        for alias, path, key in references(value):
            wanted.setdefault((alias, path), set()).add(key)
    return wanted


def _replaced(value: str, found: Mapping[tuple[str, str], Mapping[str, str]]) -> str:
    if not value or "${" not in value:
        return value

    def look(match: re.Match[str]) -> str:
        values = found.get((match.group(1), match.group(2) or ""), {})
        return values.get(match.group(3), match.group())

    return _REFERENCE.sub(look, value)
