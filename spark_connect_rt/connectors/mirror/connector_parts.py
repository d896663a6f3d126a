"""Jobs of a mirror connector outside of its tasks: one thread runs job after job (Java ``Scheduler``)."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from spark_connect_rt.connectors.mirror.config import BASE, EMIT_CHECKPOINTS, EMIT_OFFSET_SYNCS
from spark_connect_rt.connectors.mirror.filters import group_filter, property_filter, topic_filter
from spark_connect_rt.connectors.mirror.flow import reads_committed
from spark_connect_rt.connectors.mirror.mirror_admin import MirrorAdmin
from spark_connect_rt.connectors.mirror.policy import replication_policy
from spark_connect_rt.errors import BadConfigError, ConnectError

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
        """Take the thread's name, and a function to call once when no job runs any more: it may close their clients."""
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
        """Start no other job; the current one ends by its own time limits. ``at_end`` is called after it."""
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
    """Run a job; return whether it succeeded. A failure is logged with its consequence."""
    try:
        job()
    except ConnectError as error:
        log.warning("%s failed: %s (%s)", what, error, otherwise)
    except Exception:  # the top of a thread: the other jobs continue
        log.exception("%s failed (%s)", what, otherwise)
    else:
        return True
    return False


def create_internal_topic(admin: MirrorAdmin, topic: str, replication_factor: int) -> None:
    """Create a connector's own topic at its start. A failure is logged, and the connector starts nevertheless.

    As Java, whose ``Scheduler.execute`` logs the errors of ``MirrorUtils.createCompactedTopic``. So a connector works
    with a small cluster, or without the right to create topics, if the topic exists or the brokers create it.
    """
    otherwise = f"{topic} must exist, or the brokers must create it (auto.create.topics.enable)"
    done(f"creating topic {topic}", lambda: admin.create_compacted(topic, replication_factor), otherwise)


# Problems of a mirror connector's configuration that involve several settings, in Java's words where it has some.


WRITES_BESIDE = "MirrorMaker's connectors create topics and write offset syncs, checkpoints or heartbeats themselves"
FORWARDING_ADMIN = "forwarding.admin.class"
_NOT_COMMITTED = (
    "MirrorSourceConnector can only provide exactly-once guarantees when its source consumer is configured with "
    "isolation.level set to 'read_committed'; otherwise, records from aborted and uncommitted transactions will be "
    "replicated from the source cluster to the target cluster."
)


def base_problems(config: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the problems of all three connectors: classes that do not exist."""
    found: dict[str, list[str]] = {}
    for made in (replication_policy, topic_filter, group_filter, property_filter):
        try:
            made(config)
        except BadConfigError as error:
            found.update({name: list(why) for name, why in error.problems.items()})
    ours = BASE[FORWARDING_ADMIN].default
    if config.get(FORWARDING_ADMIN, ours) != ours:
        found[FORWARDING_ADMIN] = [f"Java classes cannot be used here. Only {ours} is available"]
    return found


def source_problems(config: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the problems of a MirrorSourceConnector."""
    found = base_problems(config)
    if config.get("exactly.once.support") == "required" and not reads_committed(config):
        found["exactly.once.support"] = [_NOT_COMMITTED]
    about_syncs = any(name.startswith(("offset-syncs-", "offset-syncs.topic.")) for name in config)
    if config.get(EMIT_OFFSET_SYNCS) == "false" and about_syncs:
        why = f"MirrorSourceConnector can't setup offset-syncs feature while {EMIT_OFFSET_SYNCS} set to false"
        found[EMIT_OFFSET_SYNCS] = [why]
    return found


def checkpoint_problems(config: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the problems of a MirrorCheckpointConnector; none while it is disabled."""
    found = base_problems(config)
    if config.get("enabled") == "false":
        return found
    if config.get(EMIT_CHECKPOINTS) == "false":
        found[EMIT_CHECKPOINTS] = [f"MirrorCheckpointConnector can't run with {EMIT_CHECKPOINTS} set to false"]
    if config.get(EMIT_OFFSET_SYNCS) == "false":
        found[EMIT_OFFSET_SYNCS] = ["MirrorCheckpointConnector can't run without offset syncs"]
    return found
