"""The differences from Java that are wanted, by the step of the conversation in which they show.

Each names a row of docs/reference/differences.md, where it is explained to users.
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
_UNREADABLE = "Unreadable bodies"
_ALL = frozenset({"body", "status", "content_type"})

_OFFSET_BODIES = (
    "nothing",
    "null",
    "broken JSON",
    "a list",
    "an unknown field",
    "an entry with an unknown field",
    "an entry that is a text",
    "a partition that is a list",
    "an offset that is a number",
)
_UNREADABLE_STEPS = (
    "patch with no body",
    "patch with null",
    "patch with a list",
    "patch with a map inside",
    "create with an empty initial state",
    "create with a number as initial state",
    "create with a list as initial state",
    "create in broken UTF-8",
    "create from a text",
    "create from a number",
    "create from null",
    "create with more behind it",
    "create with a comment",
    "create with NaN",
    "create with a list as name",
    "create with a config that is a list",
    "create with a map in the config",
    "put config with no body",
    "put config with null",
    "set a logger to a list",
    "set a logger from broken JSON",
    "set a logger from nothing",
    "set a logger from a list",
    *(f"alter {kind}: {body}" for kind in ("source", "sink") for body in _OFFSET_BODIES),
)

WANTED: Mapping[str, Wanted] = {
    "connector plug-ins": Wanted("More plug-ins", _BODY),
    "create from broken JSON": Wanted(_UNREADABLE, _BODY),
    "create from nothing": Wanted(_UNREADABLE, _BODY),
    "create from a list": Wanted(_UNREADABLE, _BODY),
    "create from an unknown field": Wanted(_UNREADABLE, _BODY),
    "create without config": Wanted(_UNREADABLE, _BODY),
    "create with unknown initial state": Wanted(_UNREADABLE, _BODY),
    "put config from broken JSON": Wanted(_UNREADABLE, _BODY),
    "create of unknown class": Wanted("Unknown class", _BODY),
    "put config of unknown class": Wanted("Unknown class", _BODY),
    "info of a name with a slash": Wanted("Names with a slash", _ALL),
    "a name with a per cent sign": Wanted("Names with a slash", _ALL),
    "plug-ins, connectors only in capitals": Wanted("More plug-ins", _BODY),
    "patch that renames": Wanted("PATCH with another name", _ALL),
    "patch that removes the name": Wanted("PATCH with another name", _ALL),
    "create with a content type of nonsense": Wanted("Invalid content type", _ALL),
    "loggers": Wanted("Loggers", _BODY),
    "root logger": Wanted("Loggers", _BODY),
    "offsets with a partition more": Wanted("Order of listed offsets", _BODY),
    "alter sink: a topic that is not there": Wanted("Offsets that Kafka rejects", _BODY),
    "alter sink: a partition that is not there": Wanted("Offsets that Kafka rejects", _BODY),
    "forget a partition of a group that is gone": Wanted("Reset of a deleted group", _ALL),
    **{name: Wanted(_UNREADABLE, _BODY) for name in _UNREADABLE_STEPS},
}
