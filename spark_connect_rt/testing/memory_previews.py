"""A PreviewRunner on threads of this process, with the code of an executor. A preview that hangs cannot be ended here.

Twin of engine.previews.preview_jobs.
"""

from __future__ import annotations

import json
import threading
import time
from typing import Any

from spark_connect_rt.engine.previews.model import Ended, PreviewOrder, PreviewOutcome
from spark_connect_rt.engine.previews.preview_job import carry_out
from spark_connect_rt.kafka.executor_clients import ExecutorClients

GRACE_S = 4.0


class MemoryPreviews:
    """Implements the port PreviewRunner without Spark."""

    def __init__(self, clients: ExecutorClients, grace_s: float = GRACE_S) -> None:
        """Take the clients that executors get."""
        self._clients, self._grace_s = clients, grace_s

    def run(self, order: PreviewOrder, cancelled: threading.Event) -> PreviewOutcome:
        """Run a preview and return its records, or the reason why it has none."""
        records: list[Any] = []
        doing: list[str] = []
        over: list[Any] = []

        def carry() -> None:
            def say(what: str, ended: Ended | None = None) -> None:
                doing.append(what)

            over.append(carry_out(order, self._clients, lambda text: records.append(json.loads(text)), say))

        thread = threading.Thread(target=carry, name="preview", daemon=True)
        thread.start()
        end_s = time.monotonic() + order.seconds + self._grace_s
        while thread.is_alive() and not cancelled.is_set() and time.monotonic() < end_s:
            thread.join(0.05)
        if not over:
            why = None if cancelled.is_set() else f"its time was over while {doing[-1:]}"
            return PreviewOutcome(tuple(records), Ended.TIME, why)
        return PreviewOutcome(tuple(records), Ended(over[0]["ended"]), over[0]["error"])
