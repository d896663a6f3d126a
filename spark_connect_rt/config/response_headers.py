"""``response.http.headers.config``: headers that go with every answer (KIP-577). Pure.

``add Cache-Control: no-cache, "set X-List: a, b", addDate Expires: 3600000``: action, name, value; separated by
commas, in quotes where there is a comma inside. Dates are milliseconds from now.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

ACTIONS = ("set", "add", "setDate", "addDate")
_PART = re.compile(r'\s*"((?:[^"\\]|\\.)*)"\s*(?:,|$)|([^,]*)(?:,|$)')
_BAD_IN_VALUES = re.compile(r"[\r\n\x00]")
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


@dataclass(frozen=True, slots=True)
class HeaderRule:
    """One header; ``replaces``: instead of those of that name. ``value`` of a date: ms from now."""

    name: str
    value: str
    replaces: bool
    is_date: bool


def parse_header_rules(text: str) -> list[HeaderRule]:
    """Return the rules in order. Raises ValueError naming the part that is wrong."""
    return [_rule(part) for part in _parts(text)]


def valid_header_rules(value: Any) -> str | None:
    """Complain about what ``parse_header_rules`` cannot read."""
    try:
        parse_header_rules(str(value or ""))
    except ValueError as error:
        return str(error)
    return None


def _parts(text: str) -> list[str]:
    found: list[str] = []
    at = 0
    while at < len(text):
        match = _PART.match(text, at)
        if match is None or match.end() == at:
            break
        at = match.end()
        part = match.group(1) if match.group(1) is not None else match.group(2)
        if part.strip():
            found.append(part.strip())
    return found


def _rule(part: str) -> HeaderRule:
    action, _, header = part.partition(" ")
    if not header.strip():
        raise ValueError(f"Invalid format of header config '{part}'. Expected: '[action] [header name]:[header value]'")
    if action not in ACTIONS:
        raise ValueError(f"Invalid header config action: '{action}'. Expected one of {', '.join(ACTIONS)}")
    name, colon, value = header.partition(":")
    if not colon or not _TOKEN.fullmatch(name.strip()) or _BAD_IN_VALUES.search(value):
        raise ValueError(f"Invalid format of header '{header.strip()}' in '{part}'. Expected: 'name:value'")
    is_date = action.endswith("Date")
    if is_date and not re.fullmatch(r"-?\d+", value.strip()):
        raise ValueError(f"'{value.strip()}' of header config '{part}' is not a valid number of milliseconds")
    return HeaderRule(name.strip(), value.strip(), action.startswith("set"), is_date)
