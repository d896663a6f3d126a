"""Looks from an executor which places can be reached, as a Spark job of one partition that ends at its limit."""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Sequence

from spark_connect_rt.engine.driver.spark_session import BackgroundSession
from spark_connect_rt.engine.executor.reach import Obstacles, Place, ReachPart
from spark_connect_rt.errors import ConnectError, RetriableError, TimedOutError

_numbers = itertools.count(1)
log = logging.getLogger(__name__)


class SparkReach:
    """Port ReachFrom on the worker's Spark session. Any thread."""

    def __init__(self, session: BackgroundSession) -> None:
        self._session = session

    def __call__(self, places: Sequence[Place], limit_s: float) -> Obstacles:
        """See ReachFrom. A core of an executor that slots do not hold is needed."""
        if not self._session.ready():
            raise RetriableError("Spark is not ready")
        group = f"connectrt-reach-{next(_numbers)}"
        found: list[list[str] | Exception] = []

        def run() -> None:
            try:
                context = self._session.get().sparkContext
                context.setJobGroup(group, "connectrt check")
                found.append(context.parallelize([0], 1).mapPartitions(ReachPart(places, limit_s / 2)).collect())
            except Exception as error:  # noqa: BLE001 - top of the thread: it is the caller's answer
                found.append(error)

        thread = threading.Thread(target=run, name=group, daemon=True)
        thread.start()
        thread.join(limit_s)
        if not found:
            self._cancel(group)
            raise TimedOutError(f"no executor had a free core for it within {limit_s:g} s")
        if isinstance(found[0], Exception):
            raise ConnectError(f"the job failed: {type(found[0]).__name__}") from found[0]
        host, *obstacles = found[0] or [""]
        if len(obstacles) != len(places):
            raise ConnectError(f"the job returned {len(obstacles)} of {len(places)} places")
        return Obstacles(host, obstacles)

    def _cancel(self, group: str) -> None:
        try:
            self._session.get().sparkContext.cancelJobGroup(group)
        except Exception:
            log.warning("the Spark job %s cannot be cancelled", group, exc_info=True)
