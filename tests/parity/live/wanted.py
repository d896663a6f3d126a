"""The differences from Java that are wanted, by the step of the conversation in which they show.

Each names a heading of docs/reference/differences.md, where it is explained to users.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Wanted:
    """``differs`` names the parts of the answer that are not compared."""

    heading: str
    differs: frozenset[str]


_BODY = frozenset({"body"})
_UNREADABLE = "What cannot be read is answered in our own words"
_ALL = frozenset({"body", "status", "content_type"})

WANTED: Mapping[str, Wanted] = {
    "connector plug-ins": Wanted("More plug-ins", _BODY),
    "create from broken JSON": Wanted(_UNREADABLE, _BODY),
    "create from nothing": Wanted(_UNREADABLE, _BODY),
    "create from a list": Wanted(_UNREADABLE, _BODY),
    "create from an unknown field": Wanted(_UNREADABLE, _BODY),
    "create without config": Wanted(_UNREADABLE, _BODY),
    "create with unknown initial state": Wanted(_UNREADABLE, _BODY),
    "put config from broken JSON": Wanted(_UNREADABLE, _BODY),
    "create of unknown class": Wanted("An unknown class is answered with names", _BODY),
    "put config of unknown class": Wanted("An unknown class is answered with names", _BODY),
    "info of a name with a slash": Wanted("Names with a slash", _ALL),
}
