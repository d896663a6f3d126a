"""Every part of the management API, answering one thing each: for what is asked of all routes."""

from __future__ import annotations

import threading

from spark_connect_rt.ports.management.previews import (
    Preview,
    PreviewedRecord,
    PreviewRequest,
    PreviewStage,
    ShownBytes,
    ShownHeader,
    ShownRecord,
)
from spark_connect_rt.rest.management.routes import Management

SHOWN = ShownRecord("flights", None, None, {"id": 1}, (ShownHeader("h", 1),), 5, None, {"type": "struct"})


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


EVERY_PART = Management(previews=FakePreviews())
