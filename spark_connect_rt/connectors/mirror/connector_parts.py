"""What a mirror connector does now and then beside its tasks: one thread, job after job (Java ``Scheduler``)."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from spark_connect_rt.connectors.mirror.mirror_admin import MirrorAdmin
from spark_connect_rt.errors import ConnectError

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Job:
    what: str
    run: Callable[[], None]
    interval_s: float
    due_s: float


class Rounds:
    """Jobs that are run again and again until ``stop``; a job that fails is logged and tried at its next turn."""

    def __init__(self, name: str, at_end: Callable[[], None] | None = None) -> None:
        """Take the thread's name, and what is called once when no job runs any more: it may close their clients."""
        self._at_end = at_end
        self._jobs: list[_Job] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def add(self, what: str, run: Callable[[], None], interval_ms: int | None, *, at_once: bool = False) -> None:
        """Add a job, first due ``at_once`` or after one interval; an interval of None: it is not wanted."""
        if interval_ms is not None:
            wait_s = interval_ms / 1000
            self._jobs.append(_Job(what, run, wait_s, time.monotonic() + (0 if at_once else wait_s)))

    def start(self) -> None:
        """Start the thread that runs the jobs; without jobs there is none."""
        if self._jobs:
            self._thread.start()

    def stop(self) -> None:
        """Begin no other job; the one under way ends by its own time limits. ``at_end`` is called behind it."""
        if self._ended.is_set():
            return
        self._ended.set()
        if not self._thread.is_alive() and self._at_end is not None:
            self._at_end()

    @property
    def stopped(self) -> bool:
        """Return whether ``stop`` was called."""
        return self._ended.is_set()

    def _run(self) -> None:
        while True:
            job = min(self._jobs, key=lambda candidate: candidate.due_s)
            if self._ended.wait(max(0.0, job.due_s - time.monotonic())):
                break
            done(job.what, job.run)
            job.due_s = time.monotonic() + job.interval_s
        if self._at_end is not None:
            self._at_end()


TRIED_AGAIN = "retrying later"


def done(what: str, job: Callable[[], None], otherwise: str = TRIED_AGAIN) -> bool:
    """Run a job; return whether it succeeded. Why it did not is logged, with what follows from it."""
    try:
        job()
    except ConnectError as error:
        log.warning("%s failed: %s (%s)", what, error, otherwise)
    except Exception:  # the top of a thread: the other jobs go on
        log.exception("%s failed (%s)", what, otherwise)
    else:
        return True
    return False


def create_internal_topic(admin: MirrorAdmin, topic: str, replication_factor: int) -> None:
    """Create a connector's own topic at its start; why it cannot be created is logged, and the connector starts.

    As Java, whose ``Scheduler.execute`` logs what ``MirrorUtils.createCompactedTopic`` throws: a small cluster and a
    principal without the right to create topics serve, where the topic is there or the brokers create it.
    """
    otherwise = f"{topic} must exist, or the brokers must create it (auto.create.topics.enable)"
    done(f"creating topic {topic}", lambda: admin.create_compacted(topic, replication_factor), otherwise)
