"""Part of a long topic read by its own process: taking batches apart keeps a core busy, and Python has one.

Owns: how the work is shared, the process, what passes between. A process that cannot be started or dies takes nothing
with it: its partitions are read on from where its last answer got to.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import pickle
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from typing import BinaryIO

from spark_connect_rt.kafka.logs.bulk_read import BulkRead, BulkReadEndedError, OnLatest
from spark_connect_rt.kafka.logs.compaction import Latest

SHARE_FROM_COUNT = 2_000_000  # records left to read for each process: its start costs a core a second
MOST_PROCESSES = 4  # more than that, and the broker is the limit
MODULE = "spark_connect_rt.kafka.logs.bulk_read_process"
_END_LIMIT_S, _LOOK_UP_S = 5.0, 0.2

_log = logging.getLogger(__name__)

Answer = tuple[int, Latest]
"""A partition, what one answer held of it."""
Answers = queue.SimpleQueue[Answer | None]


def shares(left: Mapping[int, int], share_from: int, cpus: int) -> list[list[int]]:
    """Return the partitions each process reads, its own first: as equal as whole partitions are. Pure.

    Args:
        left: partition -> records left to read.
        share_from: so many are worth a process.
        cpus: that this process may use.
    """
    total = sum(left.values())
    count = max(1, min(MOST_PROCESSES, cpus, total // share_from, len(left)))
    found: list[list[int]] = [[] for _ in range(count)]
    loads = [0] * count
    for number in sorted(left, key=lambda partition: -left[partition]):
        least = loads.index(min(loads))
        found[least].append(number)
        loads[least] += left[number]
    return found


class SharedRead:
    """One read of one topic by this process and, where it is long, some more. Any one thread."""

    def __init__(
        self,
        topic: str,
        consumer: Mapping[str, str],
        is_over: Callable[[], bool],
        share_from: int,
    ) -> None:
        """Take the arguments of ``BulkRead``, and from which length on the read is shared (``shares``)."""
        self._share_from = share_from
        self._topic = topic
        self._consumer = consumer
        self._is_over = is_over

    def run(self, positions: Mapping[int, int], ends: Mapping[int, int], on_latest: OnLatest) -> None:
        """See ``BulkRead.run``: also ``on_latest`` of what other processes read is called on this thread."""
        left = {number: end - positions[number] for number, end in ends.items() if end > positions[number]}
        own, *others = shares(left, self._share_from, cpu_count())
        processes: list[BulkReadProcess] = []
        answers: Answers = queue.SimpleQueue()  # of all of them
        reading = len(others)

        def on_own_latest(number: int, latest: Latest) -> None:
            on_latest(number, latest)
            while not answers.empty():
                on_answer(answers.get())

        def on_answer(answer: Answer | None) -> None:
            nonlocal reading
            if answer is None:
                reading -= 1
            else:
                on_latest(*answer)

        try:
            for numbers in others:
                theirs = {number: ends[number] for number in numbers}
                processes.append(BulkReadProcess(self._topic, self._consumer, positions, theirs, answers))
            read = BulkRead(self._topic, self._consumer, self._is_over)
            read.run(positions, {number: ends[number] for number in own}, on_own_latest)
            while reading and not self._is_over():
                with contextlib.suppress(queue.Empty):
                    on_answer(answers.get(timeout=_LOOK_UP_S))
        except OSError as error:
            raise BulkReadEndedError(f"topic {self._topic} is read record by record from here: {error}") from error
        finally:
            for process in processes:
                process.close()


def cpu_count() -> int:
    """Return how many CPUs this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class BulkReadProcess:
    """One more process that reads. Used by one thread."""

    def __init__(
        self,
        topic: str,
        consumer: Mapping[str, str],
        positions: Mapping[int, int],
        ends: Mapping[int, int],
        answers: Answers,
    ) -> None:
        """Start it; see ``BulkRead``. Puts its results into ``answers``, and None at its end. Raises OSError."""
        self._answers = answers
        self._topic = topic
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", MODULE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        job = {"topic": topic, "consumer": dict(consumer), "positions": dict(positions), "ends": dict(ends)}
        # Not on the command line: the consumer's properties hold secrets. Open as long as this process lives.
        self._process.stdin.write(json.dumps(job).encode() + b"\n")
        self._process.stdin.flush()
        threading.Thread(target=self._listen, args=(self._process.stdout,), name="bulk-read", daemon=True).start()

    def close(self) -> None:
        """Kill the process and wait until it is gone, for a while. Its results are no longer needed."""
        self._process.kill()
        try:
            self._process.wait(_END_LIMIT_S)
        except subprocess.TimeoutExpired:  # the kernel holds it, in a read of a disk that hangs for example
            _log.warning(
                "topic %s: process %d, which read it, was killed but has not ended", self._topic, self._process.pid
            )

    def _listen(self, answers: BinaryIO) -> None:
        try:
            while True:
                self._answers.put(pickle.load(answers))
        except (EOFError, OSError, pickle.UnpicklingError, ValueError):
            self._answers.put(None)


def _serve(stdin: BinaryIO, stdout: BinaryIO) -> None:
    job = json.loads(stdin.readline())
    positions, ends = ({int(number): at for number, at in job[name].items()} for name in ("positions", "ends"))

    def watch() -> None:
        stdin.read()  # ends with the process that started this one
        os._exit(1)

    def tell(number: int, latest: Latest) -> None:
        pickle.dump((number, latest), stdout, pickle.HIGHEST_PROTOCOL)
        stdout.flush()

    threading.Thread(target=watch, daemon=True).start()
    try:
        BulkRead(job["topic"], job["consumer"], lambda: False).run(positions, ends, tell)
    except BulkReadEndedError as error:
        sys.stderr.write(f"{error}\n")


def _main() -> None:
    from spark_connect_rt.base.pandas_on_demand import load_pandas_on_demand

    load_pandas_on_demand()
    _serve(sys.stdin.buffer, sys.stdout.buffer)
    os._exit(0)  # nothing of the interpreter's end is worth its time


if __name__ == "__main__":
    _main()
