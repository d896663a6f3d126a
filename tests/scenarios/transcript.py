"""Runs a transcript: commands to a simulated cluster, and what must come of each.

A block is one command, ``----``, the lines it must answer, an empty line. The first line of a file says why it exists.
Between two generations, what ended and what began is told worker by worker; the last lines say where everything is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from spark_connect_rt.errors import ConnectError
from spark_connect_rt.runtime.herder.herder_requests import DeleteConnector, PutConfig, RestartConnector, SetTargetState
from spark_connect_rt.topics.config_records import TargetState
from tests.scenarios.eager_member import EagerMember
from tests.support.simulation.simulated_cluster import SimulatedCluster, memory_source
from tests.support.simulation.simulated_threads import Scheduler

RULE = "----"
QUIET_MS = 4_000
SETTLE_LIMIT_MS = 90_000


def blocks(text: str) -> Iterator[tuple[str, str]]:
    """Yield (command, expected answer) of a transcript."""
    for block in text.strip().split("\n\n"):
        lines = [line for line in block.splitlines() if not line.startswith("#")]
        if lines:
            command, _, answer = "\n".join(lines).partition(f"\n{RULE}")
            yield command.strip(), answer.strip()


def answered(path: Path) -> str:
    """Return the transcript with the answers that its commands get now."""
    head = [line for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("#")]
    cluster = Transcript()
    parts = ["\n".join(head)]
    for command, _ in blocks(path.read_text(encoding="utf-8")):
        parts.append(f"{command}\n{RULE}\n{cluster.do(command)}".rstrip())
    cluster.close()
    return "\n\n".join(parts) + "\n"


class Transcript:
    """A cluster that is told what to do, and tells what came of it."""

    def __init__(self) -> None:
        self._cluster = SimulatedCluster(Scheduler("transcript"))
        self._told = 0
        self._eager: list[EagerMember] = []

    def do(self, command: str) -> str:
        """Run one command; unless it ends in ``&``, wait until the cluster is settled; tell what happened."""
        words = command.rstrip("& ").split()
        problem = getattr(self, "_" + words[0].replace("-", "_"))(*words[1:])
        if not command.endswith("&"):
            for _ in range(2):  # what settles for a moment may only be between two rounds
                self._cluster.until(lambda: self._cluster.unsettled() is None, SETTLE_LIMIT_MS)
                self._cluster.run_for(QUIET_MS)
        lines = [problem] if problem else []
        return "\n".join([*lines, *self._happened(), *self._everything()])

    def close(self) -> None:
        """Throw the cluster away."""
        self._cluster.close()

    def _join(self, *names: str) -> None:
        for name in names:
            self._cluster.add_worker(name)

    def _join_eager(self, name: str) -> None:
        self._eager.append(EagerMember(self._cluster, name))

    def _leave_eager(self, name: str) -> None:
        next(member for member in self._eager if member.name == name).leave()
        self._eager = [member for member in self._eager if member.name != name]

    def _put(self, name: str, tasks: str) -> str | None:
        config = memory_source(int(tasks.partition("=")[2]))
        return self._on_leader(lambda herder: herder.submit(PutConfig(name, config)))

    def _pause(self, name: str) -> str | None:
        return self._on_leader(lambda herder: herder.submit(SetTargetState(name, TargetState.PAUSED)))

    def _delete(self, name: str) -> str | None:
        return self._on_leader(lambda herder: herder.submit(DeleteConnector(name)))

    def _restart(self, name: str) -> str | None:
        return self._on_leader(lambda herder: herder.submit(RestartConnector(name, True, False)))

    def _crash(self, name: str) -> None:
        self._cluster.crash(name)

    def _stop(self, name: str) -> None:
        self._cluster.stop(name)

    def _freeze(self, name: str) -> None:
        self._cluster.workers[name].process.freeze()

    def _thaw(self, name: str) -> None:
        self._cluster.workers[name].process.thaw()

    def _cut(self, name: str) -> None:
        self._cluster.workers[name].link.cut()

    def _mend(self, name: str) -> None:
        self._cluster.workers[name].link.mend()

    def _compact(self) -> None:
        self._cluster.config_topic.compact()

    def _wait(self, duration: str) -> None:
        self._cluster.run_for(int(duration.removesuffix("s")) * 1_000)

    def _on_leader(self, request) -> str | None:  # type: ignore[no-untyped-def]
        leader = self._cluster.leader()
        assert leader is not None
        answer = request(leader.herder)
        self._cluster.until(answer.done)
        error = answer.exception()
        assert error is None or isinstance(error, ConnectError)
        return None if error is None else f"{type(error).__name__}: {error}"

    def _happened(self) -> list[str]:
        """Tell what is new: generations in order; between them each worker's ends and starts."""
        news, self._told = self._cluster.truth.history[self._told :], len(self._cluster.truth.history)
        lines: list[str] = []
        round_: dict[tuple[str, str], list[str]] = defaultdict(list)

        def tell_round() -> None:
            lines.extend(
                f"{worker} {verb} {' '.join(sorted(tasks))}" for (worker, verb), tasks in sorted(round_.items())
            )
            round_.clear()

        for verb, worker, what in news:
            if verb == "generation":
                tell_round()
                lines.append(f"generation {what}, leader {worker}")
            else:
                round_[worker, verb].append(what)
        tell_round()
        return lines

    def _everything(self) -> list[str]:
        """Tell where everything is."""
        here: dict[str, list[str]] = defaultdict(list)
        for task, sides in self._cluster.truth.alive.items():
            for side in sides:
                here[side.worker].append(str(task))
        names = {worker.name for worker in self._cluster.workers.values() if worker.process.alive} | here.keys()
        told = [f"= {name}: {' '.join(sorted(here[name])) or '-'}" for name in sorted(names)]
        return told + [f"= {member.name} (eager): {member.given}" for member in self._eager]
