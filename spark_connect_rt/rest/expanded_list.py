"""``GET /connectors?expand=...``: every connector's status and info in one body.

Owns: the bytes made last for each connector, used again while nothing about it has changed. A list of 2,000 connectors
is asked for by every dashboard every few seconds, and hardly any of them has changed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from spark_connect_rt.base.json_text import encode_finite_json
from spark_connect_rt.errors import NotFoundError
from spark_connect_rt.rest.json_values import as_json
from spark_connect_rt.rest.read_back import read_back
from spark_connect_rt.rest.shapes import ExpandedConnector
from spark_connect_rt.runtime.herder.api import HerderViews

EXPANSIONS = ("status", "info")


def expansions(words: Collection[str]) -> tuple[str, ...]:
    """Return those of ``words`` that can be expanded, each once."""
    return tuple(expansion for expansion in EXPANSIONS if expansion in words)


class ExpandedList:
    """The list of one worker. Any thread: two at once may make the same bytes twice."""

    def __init__(self, views: HerderViews) -> None:
        self._views = views
        self._made: dict[tuple[str, ...], dict[str, tuple[object, bytes]]] = {}

    def body(self, names: Iterable[str], wanted: Collection[str]) -> bytes:
        """Return the JSON object name -> what ``wanted`` names, in this order of names; unknown words count nothing."""
        known = expansions(wanted)
        before = self._made.get(known, {})
        after: dict[str, tuple[object, bytes]] = {}
        for name in names:
            try:
                mark = self._views.connector_mark(name)  # first: what changes meanwhile is made again the next time
                kept = before.get(name)
                after[name] = kept if kept is not None and kept[0] == mark else (mark, self._member(name, known))
            except NotFoundError:
                continue  # deleted since the list was taken
        self._made[known] = after
        return b"{%b}" % b",".join(member for _, member in after.values())

    def _member(self, name: str, wanted: Collection[str]) -> bytes:
        found = ExpandedConnector(
            self._views.connector_status(name) if "status" in wanted else None,
            read_back(self._views.connector_info(name)) if "info" in wanted else None,
        )
        return encode_finite_json({name: as_json(found)})[1:-1]
