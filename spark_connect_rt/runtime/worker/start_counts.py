"""How many starts of connectors or tasks this worker tried, and how they went (Java ``WorkerMetricsGroup``)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from spark_connect_rt.runtime.metric_names import Measured, measured
from spark_connect_rt.runtime.worker.worker_connector import NO_NOTES, ReportStatus
from spark_connect_rt.topics.connector_status import State

_ENDED_BEFORE = (None, State.UNASSIGNED, State.RESTARTING, State.DESTROYED)


class StartCounts:
    """Of one kind: connector or task. The first state that is reported of a start says how it went."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._attempts = self._good = self._bad = 0

    def of_one(self, report: ReportStatus) -> ReportStatus:
        """Count an attempt; return the reporter that counts how it went."""
        self._attempts += 1
        known = False

        def report_and_count(
            state: State | None,
            trace: str | None = None,
            version: str | None = None,
            notes: Mapping[str, Any] = NO_NOTES,
        ) -> None:
            nonlocal known
            if not known:
                known = True
                self._good += state is not State.FAILED and state not in _ENDED_BEFORE
                self._bad += state is State.FAILED
            report(state, trace, version, notes)

        return report_and_count

    def metrics(self) -> Iterator[Measured]:
        """Yield attempts, successes and failures, and the shares of both, as metrics."""
        over = max(1, self._good + self._bad)
        for name, value in (
            ("attempts-total", self._attempts),
            ("success-total", self._good),
            ("failure-total", self._bad),
            ("success-percentage", round(self._good / over, 4)),
            ("failure-percentage", round(self._bad / over, 4)),
        ):
            yield measured("connect-worker-metrics", f"{self._kind}-startup-{name}", value)
