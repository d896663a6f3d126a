"""An overview of one connector on one worker, for what is asked of all routes."""

from __future__ import annotations

from dataclasses import fields

from spark_connect_rt.errors import NotFoundError
from spark_connect_rt.operations.overview.model import (
    ConnectorDetail,
    ConnectorRow,
    CoursePoint,
    GroupInfo,
    GroupWorkerRow,
    OverviewChange,
    OverviewPage,
    TaskRow,
)
from spark_connect_rt.operations.overview.selection import OverviewQuery
from spark_connect_rt.rest.peers import OURS, Unanswered
from spark_connect_rt.runtime.values import RestartNote, TableProgress

ROW = ConnectorRow("src", "source", "FileStreamSource", "RUNNING", "RUNNING", "h:8083", {"RUNNING": 1}, 1.5, None, 0)


class FakeOverview:
    """One connector on one worker, and one that did not answer."""

    def page(self, wanted: OverviewQuery) -> OverviewPage:
        missing = (Unanswered("w2:8083", "no answer within 1000 ms"),)
        return OverviewPage((ROW,), 1, 1, {"RUNNING": 1, "abnormal": 0}, 1.5, missing, 5)

    def connector(self, name: str) -> ConnectorDetail:
        if name != "src":
            raise NotFoundError(f"No status found for connector {name}")
        row = {field.name: getattr(ROW, field.name) for field in fields(ConnectorRow) if field.name != "tasks"}
        task = TaskRow(0, "FAILED", "h:8083", "h:1", "boom", 5, 1.5, None, 1, 0.25, RestartNote(1), None)
        return ConnectorDetail(
            **row,
            trace=None,
            version="4.1.1",
            config={"password": "[hidden]"},
            topics=("lines",),
            tasks=(task,),
            tables=(TableProgress("shop.orders", 1, 5),),
            course=(CoursePoint(10_000, 1.5, None, 0),),
            unanswered=(),
            at_ms=5,
        )

    def group(self) -> GroupInfo:
        worker = GroupWorkerRow(
            "h:8083", "http://h:8083/", True, True, OURS, "0.1", True, "", "healthy", ("src",), ("src-0",), 1.5, 100, 1
        )
        return GroupInfo("g", "cluster", "sessioned", "h:8083", 2, (worker,), 5)

    def changes(self, since_ms: int) -> OverviewChange:
        return OverviewChange(5, b'{"changed":[]}' if since_ms in range(1, 5) else None)
