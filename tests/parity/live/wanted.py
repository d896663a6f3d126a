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
_REFUSAL = frozenset({"body", "status"})
_ALL = frozenset({"body", "status", "content_type"})

WANTED: Mapping[str, Wanted] = {
    "root": Wanted("Version and commit", _BODY),
    "connector plug-ins": Wanted("More plug-ins", _BODY),
    "unknown path": Wanted("Every error says it is JSON", frozenset({"content_type"})),
    "wrong method on root": Wanted("Every error says it is JSON", frozenset({"content_type"})),
    "wrong method on connectors": Wanted("Every error says it is JSON", frozenset({"content_type"})),
    "create from broken JSON": Wanted("A request that cannot be read is the client's error", _REFUSAL),
    "create from nothing": Wanted("A request that cannot be read is the client's error", _REFUSAL),
    "create from a list": Wanted("A request that cannot be read is the client's error", _REFUSAL),
    "create from an unknown field": Wanted("A request that cannot be read is the client's error", _REFUSAL),
    "create without config": Wanted("A request that cannot be read is the client's error", _REFUSAL),
    "create with unknown initial state": Wanted("A request that cannot be read is the client's error", _REFUSAL),
    "put config from broken JSON": Wanted("A request that cannot be read is the client's error", _REFUSAL),
    "create of unknown class": Wanted("An unknown class is answered with names", _BODY),
    "put config of unknown class": Wanted("An unknown class is answered with names", _BODY),
    "info of a name with a slash": Wanted("Names with a slash", _ALL),
}
