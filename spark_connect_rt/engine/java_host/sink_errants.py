"""Errant records of a sink task in a JVM: what its frames say, and when it may know that they are durable.

Owns the letters that were handed on and not yet confirmed. The log, the counts and the dead letter queue are those of
every sink (``engine/executor/errant_reports.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from spark_connect_rt.api.records import ConsumeRow
from spark_connect_rt.engine.executor.errant_reports import ErrantReports
from spark_connect_rt.engine.java_host.wire import Frame
from spark_connect_rt.errors import ConnectError, JavaPluginError
from spark_connect_rt.records.pipeline.errant_records import Errant, Stage
from spark_connect_rt.records.pipeline.sink_pipeline import place_of

Original = Callable[[ConsumeRow], ConsumeRow]


class JavaErrants:
    """Those of one task. The task's thread."""

    def __init__(
        self, reports: ErrantReports, confirm: Callable[[Mapping[str, Any]], None], flush_timeout_ms: int
    ) -> None:
        """``confirm`` says to the JVM how far letters are durable: {"to": number}, or never will be: with "error"."""
        self._reports = reports
        self._confirm = confirm
        self._flush_timeout_ms = flush_timeout_ms
        self._last = self._confirmed = 0
        self.original: Original = lambda row: row  # what was consumed, of what the JVM was given
        self.skipped = 0  # given up before put; taken by the caller
        self.reported = 0  # by the task itself; taken by the caller

    def take(self, frame: Frame) -> None:
        """Log it and send it to the queue. Raises ConnectError: the queue refuses a record."""
        errant = errant_of(frame, self.original)
        self._last = frame.head["number"]
        by_task = errant.stage is Stage.TASK_PUT
        if by_task:
            self.reported += 1
        else:
            self.skipped += 1
        try:
            self._reports.tell((errant,), by_task=by_task)
        except ConnectError as error:
            self._refuse(error)
            raise

    def settle(self) -> None:
        """Wait until all are durable, and say so; what takes too long waits for another time. Raises ConnectError."""
        if self._last == self._confirmed:
            return
        try:
            durable = self._reports.flush(self._flush_timeout_ms)
        except ConnectError as error:
            self._refuse(error)
            raise
        if durable:
            self._confirmed = self._last
            self._confirm({"to": self._last})

    def _refuse(self, error: ConnectError) -> None:
        self._confirmed = self._last
        self._confirm({"to": self._last, "error": str(error)})


def errant_of(frame: Frame, original: Original = lambda row: row) -> Errant:
    """Return the errant record that an ERRANT frame holds."""
    head, at = frame.head, 0

    def part(size: int) -> bytes | None:
        nonlocal at
        if size < 0:
            return None
        at += size
        return bytes(frame.data[at - size : at])

    key, value = part(head["key"]), part(head["value"])
    headers = [{"key": name, "value": part(size)} for name, size in head["headers"]]
    row: ConsumeRow = (
        head["topic"],
        head["partition"],
        head["offset"],
        head["timestamp"],
        key,
        value,
        headers or None,
    )
    row = original(row)
    said = head.get("error") or {"class": "", "message": None, "trace": ""}
    error = JavaPluginError(said["class"], said["message"], said["trace"])
    return Errant(place_of(row), Stage(head["stage"]), error, head["executing_class"] or "", row)
