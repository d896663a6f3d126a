"""Workers of one group, and what the lines of VerifiableSource and VerifiableSink in their logs say.

A system test of Kafka's counts what its connectors print: made, acknowledged, put.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.e2e.commands import until
from tests.e2e.worker_group import SubmittedWorker
from tests.integration.kafka.threads_worker import ThreadsWorkerProcess
from tests.support.numbered_lines import missing
from tests.support.worker_process import WorkerProcess

SETTINGS = {
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "key.converter.schemas.enable": "false",
    "value.converter.schemas.enable": "false",
    "offset.flush.interval.ms": "1000",
    "session.timeout.ms": "8000",
    "heartbeat.interval.ms": "1000",
    "scheduled.rebalance.max.delay.ms": "2000",
    "config.providers": "file",
    "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
}


@dataclass(frozen=True)
class Size:
    """How large the story is."""

    workers: int
    tasks: int
    rounds: int  # bounces of every worker
    flow_s: float  # how long records flow before and between bounces
    limit_s: float  # until a step must have come true
    worker: type[WorkerProcess]


SHORT = Size(2, 2, 1, 1.0, 60.0, ThreadsWorkerProcess)
WHOLE = Size(3, 3, 3, 5.0, 240.0, SubmittedWorker)
SIZE = WHOLE if os.environ.get("CONNECTRT_SYSTEM_TESTS") == "whole" else SHORT


@dataclass
class Numbers:
    """Sequence numbers by source task, as the lines name them."""

    made: defaultdict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    acknowledged: defaultdict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    put: defaultdict[int, list[int]] = field(default_factory=lambda: defaultdict(list))

    def count(self, kind: str) -> int:
        """Return how many lines of a kind there are."""
        return sum(map(len, getattr(self, kind).values()))


def read_numbers(logs: Sequence[Path], source: str, sink: str) -> Numbers:
    """Return what the two connectors printed into these logs."""
    found = Numbers()
    for log in logs:
        for line in log.read_text(errors="replace").splitlines() if log.exists() else ():
            at = line.find("{")
            if at < 0 or '"seqno"' not in line:
                continue
            try:
                fields: dict[str, Any] = json.loads(line[at:])
            except ValueError:
                continue  # a line that its process did not live to finish
            _take(found, fields, source, sink)
    return found


def _take(found: Numbers, fields: dict[str, Any], source: str, sink: str) -> None:
    by_task = None
    if fields.get("name") == source:
        by_task = found.acknowledged if fields.get("committed") else found.made
    elif fields.get("name") == sink:
        by_task = None if fields.get("flushed") else found.put
    if by_task is not None:
        by_task[fields["task"]].append(fields["seqno"])


def lost(sent: Sequence[int], arrived: Sequence[int]) -> list[int]:
    """Return the numbers up to the last one sent that did not arrive."""
    return missing(arrived, max(sent, default=-1) + 1)


class VerifiableGroup:
    """``size.workers`` workers over one broker; every step waits for what it asks."""

    def __init__(self, folder: Path, bootstrap_servers: str, name: str, size: Size = SIZE) -> None:
        self.folder, self.size = folder, size
        self.bootstrap_servers = bootstrap_servers
        self.workers = [
            size.worker(folder / f"worker-{number}", bootstrap_servers, name, properties=SETTINGS)
            for number in range(size.workers)
        ]

    @property
    def rest(self) -> Any:
        """The REST API of the first worker that runs."""
        return next(worker for worker in self.workers if worker.pid).rest

    def start(self) -> None:
        """Start every worker that does not run."""
        resting = [worker for worker in self.workers if not worker.pid]
        for worker in resting:
            worker.launch()
        for worker in resting:
            worker.await_answer("/health", self.size.limit_s)

    def stop(self) -> None:
        """Stop every worker in order."""
        for worker in self.workers:
            worker.stop()

    def close(self) -> None:
        """Stop all, and close the clients."""
        self.stop()
        for worker in self.workers:
            worker.rest.close()

    def numbers(self, source: str, sink: str) -> Numbers:
        """Return what both printed so far on any worker."""
        return read_numbers([worker.log_file for worker in self.workers], source, sink)

    def until(self, good: Callable[[], Any], what: str, last: Callable[[], object] = lambda: "") -> None:
        """Wait until it is so. Raises AssertionError with what ``last`` returns and the ends of the logs."""
        until(good, self.size.limit_s, what, lambda: (last(), *map(self._end, self.workers)), every_s=0.1)

    def _end(self, worker: WorkerProcess) -> str:
        return worker.log_file.read_text(errors="replace")[-1500:]

    def configure(self, name: str, config: dict[str, str]) -> None:
        """Create or change a connector."""
        answer = self.rest.settled("PUT", f"/connectors/{name}/config", config)
        assert answer.status in (200, 201), answer

    def await_states(self, name: str, connector: str, tasks: list[str]) -> None:
        """Wait until every worker says so."""
        for worker in self.workers:
            if worker.pid:
                rest = worker.rest
                self.until(
                    lambda rest=rest: rest.states(name) == (connector, tasks),  # type: ignore[misc]
                    f"{name} is {connector} with {tasks}",
                    lambda rest=rest: rest.states(name),  # type: ignore[misc]
                )
