"""Failover: six tasks follow growing files on three workers; one is killed, one leaves in order, both come back.

The times are the broker's own: how long after the event the topics of the tasks that the worker had were silent.
Java runs with its defaults (it holds lost work back for five minutes) and without that delay.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Sequence

from bench.lab import Lab
from bench.report import Result, Run
from spark_connect_rt.errors import StartupError
from tests.support.numbered_lines import Feeder, Topics, create_topics, duplicates, outage, spread
from tests.support.worker_process import WorkerProcess

TASKS = 6
SESSION_S, HEARTBEAT_S = 10.0, 3.0  # both sides' defaults
KILL_TARGET_S = SESSION_S + 3
LEAVE_TARGET_S = 2 * HEARTBEAT_S + 2
START_LIMIT_S = 300.0
FLOW_LIMIT_S = 240.0
JAVA_DELAY_LIMIT_S = 420.0


def run(lab: Lab, short: bool) -> Result:
    """Ours and Java without delay three times each; Java with its defaults once, for it takes five minutes."""
    result = Result(
        "failover", "s from kill -9 until every task runs again", "kill_s", False, f"<={KILL_TARGET_S:.0f}s"
    )
    repeats = 1 if short else 3
    _measure(lab, result, "ours", lab.ours, {}, repeats, short)
    _measure(lab, result, "java" if short else "java (delay 0)", lab.java, NO_DELAY, repeats, short)
    if not short:
        _measure_delayed(lab, result)
    # No member can be missed sooner than a session after its last heartbeat, which was a heartbeat ago at most.
    result.runs.append(Run("limit", {"kill_s": SESSION_S - HEARTBEAT_S}))
    result.conclude()
    leave = result.median("ours", "leave_s")
    in_time = result.ours is not None and result.ours <= KILL_TARGET_S
    result.met = in_time and (short or (leave is not None and leave <= LEAVE_TARGET_S))
    result.notes += [
        f"targets: kill -9 <= {KILL_TARGET_S:.0f} s, planned leave <= {LEAVE_TARGET_S:.0f} s",
        "leave_s, kill_s: until the last topic of the worker's tasks was written again; *_silence_s: longest silence",
        "add_s: from the start of two processes until the tasks are spread evenly and all flow",
        *lab.complaints,
    ]
    return result


NO_DELAY = {"scheduled_rebalance_max_delay_ms": "0"}


class _Group:
    """Workers of one group and the lines that flow through them."""

    def __init__(self, lab: Lab, make: Callable[..., WorkerProcess], settings: dict[str, str], count: int) -> None:
        name = lab.fresh("failover")
        shared = {"group_id": name, **{f"{kind}_storage_topic": f"{name}-{kind}" for kind in KINDS}, **settings}
        self.workers = [make(**shared) for _ in range(count)]
        folder = lab.folder / name
        folder.mkdir()
        self.feeder = Feeder(folder, TASKS, every_s=0.02)
        self.names = [f"{name}-lines-{number}" for number in range(TASKS)]
        create_topics(lab.bootstrap_servers, self.names)
        self.topics = Topics(lab.bootstrap_servers, self.names)

    def start(self) -> None:
        """Start every worker, deploy, and wait until everything flows."""
        self.workers[0].start()  # alone at first: who joins first leads, and the leader is the one that stays
        for worker in self.workers[1:]:
            worker.launch()
        for worker in self.workers[1:]:
            worker.await_answer("/health", START_LIMIT_S)
        for path, topic in zip(self.feeder.files, self.names, strict=True):
            path.touch()
            config = {"connector.class": "FileStreamSource", "file": str(path), "topic": topic}
            self.workers[0].rest.create(topic, config)
        self.feeder.start()
        self.await_flow(FLOW_LIMIT_S)
        self.await_spread()

    def close(self) -> None:
        """Stop everything."""
        with contextlib.suppress(RuntimeError):
            self.feeder.stop()
        for worker in self.workers:
            worker.stop()
        self.topics.close()

    def owners(self, seen_by: WorkerProcess) -> dict[str, str]:
        """Return the worker of each running task, by the task's topic."""
        listed = seen_by.rest.request("GET", "/connectors?expand=status")
        return {
            name: task["worker_id"]
            for name, entry in (listed.json().items() if listed.status == 200 else ())
            for task in entry["status"]["tasks"]
            if task["state"] == "RUNNING"
        }

    def await_spread(self) -> None:
        """Wait until every task runs and the live workers have the same number, give or take one."""
        alive = [worker for worker in self.workers if not worker.ended()]
        ids = [f"127.0.0.1:{worker.rest_port}" for worker in alive]

        def even() -> bool:
            owners = self.owners(alive[0])
            shares = spread(owners.values(), ids)
            return sum(shares) == TASKS and shares[-1] - shares[0] <= 1

        _until(even, FLOW_LIMIT_S, "the tasks are spread")

    def await_flow(self, limit_s: float, names: Sequence[str] = ()) -> None:
        """Wait until lines written from now on are in the topics."""
        number, wanted = self.feeder.written, names or self.names

        def flows() -> bool:
            arrivals = self.topics.refresh()
            return all(max(arrivals[name].numbers, default=-1) >= number for name in wanted)

        _until(flows, limit_s, "lines flow")

    def silence(self, since_ms: float, names: Sequence[str]) -> tuple[float, float]:
        """Return when the last of the topics was written again after ``since_ms``, and the longest silence; s."""
        found = [outage(self.topics.refresh()[name], since_ms) for name in names]
        return max(end for _, end in found) / 1000, max(length for length, _ in found) / 1000

    def repeated(self) -> int:
        """Return how many records are in the topics more than once."""
        return sum(duplicates(arrivals.numbers) for arrivals in self.topics.refresh().values())

    def topics_of(self, worker: WorkerProcess) -> list[str]:
        """Return the topics that a worker's tasks write, as another worker says."""
        other = next(process for process in self.workers if process is not worker and not process.ended())
        return [name for name, owner in self.owners(other).items() if owner == f"127.0.0.1:{worker.rest_port}"]


KINDS = ("config", "offset", "status")


def _measure(
    lab: Lab,
    result: Result,
    who: str,
    make: Callable[..., WorkerProcess],
    settings: dict[str, str],
    repeats: int,
    short: bool,
) -> None:
    if lab.java_only and who == "ours":
        return
    group = _Group(lab, make, settings, 2 if short else 3)
    try:
        group.start()
        for number in range(repeats):
            stays = group.workers[number % len(group.workers)]
            killed, *leavers = [worker for worker in group.workers if worker is not stays]
            figures = _kill(group, killed)
            for leaver in leavers:
                figures |= _leave(group, leaver)
            if number + 1 < repeats:  # a start of ours costs 20 CPU seconds: not where it is not needed any more
                figures |= _add(group, [killed, *leavers])
            result.runs.append(Run(who, figures))
    except (StartupError, TimeoutError) as error:
        lab.complaints.append(f"{who}: {str(error)[-400:]}")
    finally:
        group.close()


def _kill(group: _Group, worker: WorkerProcess) -> dict[str, float]:
    topics, before, since_ms = group.topics_of(worker), group.repeated(), _now_ms()
    worker.kill()
    group.await_flow(FLOW_LIMIT_S)
    end, _ = group.silence(since_ms, topics)
    return {"kill_s": round(end, 2), "kill_repeats": group.repeated() - before}


def _leave(group: _Group, worker: WorkerProcess) -> dict[str, float]:
    group.await_spread()
    topics, before, since_ms = group.topics_of(worker), group.repeated(), _now_ms()
    os.kill(worker.pid, signal.SIGTERM)
    group.await_flow(FLOW_LIMIT_S)
    _until(worker.ended, 60, "the worker ends")
    end, length = group.silence(since_ms, topics)
    worker.stop()
    repeats = group.repeated() - before
    return {"leave_s": round(end, 2), "leave_silence_s": round(length, 2), "leave_repeats": repeats}


def _add(group: _Group, workers: Sequence[WorkerProcess]) -> dict[str, float]:
    """Start workers together."""
    since_ms = _now_ms()
    for worker in workers:
        worker.launch()
    for worker in workers:
        worker.await_answer("/health", START_LIMIT_S)
    group.await_spread()
    group.await_flow(FLOW_LIMIT_S)
    spread_s = (_now_ms() - since_ms) / 1000
    _, length = group.silence(since_ms, group.names)
    return {"add_s": round(spread_s, 2), "add_silence_s": round(length, 2)}


def _measure_delayed(lab: Lab, result: Result) -> None:
    """Java with its defaults: one worker is killed and one leaves at the same time; both wait the five minutes.

    The leader stays: a new one would not know what was lost, and would give it away at once.
    """
    group = _Group(lab, lab.java, {}, 3)
    try:
        group.start()
        killed, leaver = group.workers[1:]
        of_killed, of_leaver, since_ms = group.topics_of(killed), group.topics_of(leaver), _now_ms()
        os.kill(leaver.pid, signal.SIGTERM)
        killed.kill()
        group.await_flow(JAVA_DELAY_LIMIT_S)
        (kill_s, _), (leave_s, _) = group.silence(since_ms, of_killed), group.silence(since_ms, of_leaver)
        result.runs.append(Run("java", {"kill_s": round(kill_s, 2), "leave_s": round(leave_s, 2)}))
    except (StartupError, TimeoutError) as error:
        lab.complaints.append(f"java: {str(error)[-400:]}")
    finally:
        group.close()


def _now_ms() -> float:
    return time.time() * 1000


def _until(condition: Callable[[], bool], limit_s: float, what: str) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {limit_s:.0f} s: {what}")
        time.sleep(0.05)
