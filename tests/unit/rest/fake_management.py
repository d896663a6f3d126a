"""Every part of the management API, answering one thing each: for what is asked of all routes."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from spark_connect_rt.app.rest.admin_api import Management
from spark_connect_rt.operations.checks.model import CheckLine, CheckReport, CheckRequest
from spark_connect_rt.operations.logs.model import LogLine, PlacedLine, WantedLines
from spark_connect_rt.operations.preview.model import (
    Preview,
    PreviewedRecord,
    PreviewRequest,
    PreviewStage,
    ShownBytes,
    ShownHeader,
    ShownRecord,
)
from spark_connect_rt.rest.peers import Unanswered
from spark_connect_rt.runtime.group_events import GroupEvent
from tests.unit.rest.fake_history import FakeHistory
from tests.unit.rest.fake_letters import FakeLetters
from tests.unit.rest.fake_overview import FakeOverview

SHOWN = ShownRecord("flights", None, None, {"id": 1}, (ShownHeader("h", 1),), 5, None, {"type": "struct"})


EVENT = GroupEvent("e-1", 5, "failure", "w1:8083", "src", 0, "task src-0 FAILED: ValueError: no", {"trace": "..."})


class FakeEvents:
    """One event, and a worker that did not answer."""

    def gathered(self) -> tuple[Sequence[GroupEvent], Sequence[Unanswered]]:
        return (EVENT,), (Unanswered("w2:8083", "no answer within 1000 ms"),)


LINE = LogLine(5, "INFO", "x", 0, "executor", "w1:8083", "host", "hello")


class FakeLogs:
    """One line, and a worker that did not answer."""

    def lines(
        self, wanted: WantedLines, after: Mapping[str, int] | None = None, *, everywhere: bool = True
    ) -> tuple[Sequence[PlacedLine], Sequence[Unanswered]]:
        return (PlacedLine(LINE, "run", 1),), (Unanswered("w2:8083", "no answer within 1000 ms"),)


class FakePreviews:
    """Previews of one record."""

    def __init__(self) -> None:
        self.asked: list[PreviewRequest] = []
        self.hangs = False
        self.cancelled = threading.Event()

    def preview(self, request: PreviewRequest, cancelled: threading.Event) -> Preview:
        self.asked.append(request)
        if self.hangs and cancelled.wait(10):
            self.cancelled.set()
        stages = (
            PreviewStage("polled", SHOWN),
            PreviewStage("converted", SHOWN, ShownBytes(None, "e30=")),
            PreviewStage("transforms.x", None, None, "ValueError: no"),
        )
        return Preview((PreviewedRecord(stages),), "records", None, 0.5)


class FakeChecks:
    """One line."""

    def check(self, request: CheckRequest) -> CheckReport:
        line = CheckLine(
            "host", "bootstrap.servers", False, "problem", "no broker answers", "correct bootstrap.servers"
        )
        return CheckReport(False, (line,))


EVERY_PART = Management(
    history=FakeHistory(),
    events=FakeEvents(),
    logs=FakeLogs(),
    previews=FakePreviews(),
    overview=FakeOverview(),
    checks=FakeChecks(),
    letters=FakeLetters(),
    replays=FakeLetters(),
)
