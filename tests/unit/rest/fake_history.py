"""A history that knows two changes of every connector."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from spark_connect_rt.errors import NotFoundError
from spark_connect_rt.rest.change_history import CONFIG, OFFSETS, Change, ChangePage, ChangeQuery, Course, CoursePoint
from spark_connect_rt.runtime.herder.herder_requests import Request
from spark_connect_rt.runtime.values import ConnectorOffset
from spark_connect_rt.topics.offset_changes import OffsetPair
from tests.unit.runtime.cluster_stories import source

KNOWN_MS = 5
SAME: Mapping[str, Any] = {"offsets": [{"partition": {"task": "x"}, "offset": {"position": 1}}]}


class FakeHistory:
    """Change 1 is one of offsets that changed nothing, change 0 the creation of the connector before it."""

    def served(self, request: Request[Any], who: str, note: str, *, here: bool) -> None:
        pass

    def changes(self, query: ChangeQuery) -> ChangePage:
        name = query.connector or "src"
        created = Change(0, 4, name, CONFIG, "create", None, None, None, {**source(), "name": name}, "", "RUNNING")
        return ChangePage([created], "one record cannot be read")

    def change(self, connector: str, number: int) -> Change:
        if number != 1:
            raise NotFoundError(f"connector {connector} has no change {number} in the history")
        return Change(1, 5, connector, OFFSETS, "alter", "ada@h", "w1:8083", SAME, SAME, "OPS-1")

    def change_at(self, connector: str, version: int) -> Change | None:
        return None

    def course(self, connector: str, from_ms: int, to_ms: int) -> Course:
        return Course([CoursePoint(KNOWN_MS, [ConnectorOffset({"task": "x"}, {"position": 1})])])

    def offsets_at(self, connector: str, time_ms: int) -> tuple[int, Sequence[OffsetPair]] | None:
        return (KNOWN_MS, [({"task": "x"}, {"position": 1})]) if time_ms == KNOWN_MS else None

    def shown(self, config: Mapping[str, str]) -> Mapping[str, str]:
        return config

    def range_problems(self, connector: str, pairs: Sequence[OffsetPair]) -> Sequence[str]:
        return ()
