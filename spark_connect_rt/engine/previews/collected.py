"""What a preview has found so far: handed on record by record, counted against its limits.

Owns the limits of one preview: records, seconds, bytes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Protocol

from spark_connect_rt.base.json_text import encode_json
from spark_connect_rt.engine.previews.model import BYTES_MAX, Ended
from spark_connect_rt.engine.previews.shown_records import Tree

Report = Callable[[str], None]
"""Takes one record's stages as JSON text."""


class Say(Protocol):
    """Takes what is done next, for the case that it never returns."""

    def __call__(self, what: str, ended: Ended | None = None) -> None:
        """``what``: starting the task, polling ... ``ended``: why no more records come, once that is known."""


class Collected:
    """The limits of one preview, and how far it is. One thread."""

    def __init__(
        self,
        records: int,
        seconds: float,
        report: Report,
        *,
        bytes_max: int = BYTES_MAX,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin now."""
        self._records_left, self._bytes_left = records, bytes_max
        self._now_s, self._end_s = now_s, now_s() + seconds
        self._report = report

    @property
    def seconds_left(self) -> float:
        """How long it may go on."""
        return max(0.0, self._end_s - self._now_s())

    @property
    def records_left(self) -> int:
        """How many more records it takes."""
        return max(0, self._records_left)

    @property
    def full(self) -> Ended | None:
        """Which limit is reached, None: none."""
        if self._records_left <= 0:
            return Ended.RECORDS
        if self._bytes_left <= 0:
            return Ended.BYTES
        return Ended.TIME if not self.seconds_left else None

    def add(self, stages: Sequence[Tree]) -> None:
        """Hand on one record's stages; ignored once a limit is reached, but for the time."""
        if self._records_left > 0 and self._bytes_left > 0:
            text = encode_json(list(stages)).decode()
            if len(text) > BYTES_MAX:  # by its headers: keys and values are cut
                why = f"too large to show: {len(text)} bytes of JSON"
                text = encode_json([{"stage": stages[0]["stage"], "record": None, "error": why}]).decode()
            self._records_left -= 1
            self._bytes_left -= len(text)
            self._report(text)
