"""Groups: how far a group of our own workers goes on a broker as it is, and what each rebalance costs its leader.

No broker and no workers: members' metadata bytes to the leader, assignments back, until nothing is left to do, in one
process. The record that a broker would keep is counted as Kafka writes it and refused above the default 1 MiB. The
seconds are CPU of the leader alone; the members' part is spread over as many machines.
"""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from bench.lab import Lab
from bench.report import Result, Run
from tests.support.compact_group import CompactGroup

TARGET_S = 60.0


@dataclass(frozen=True)
class Shape:
    """How large the group and its configuration are."""

    workers: int
    connectors: int
    tasks: int  # of each connector

    def __str__(self) -> str:
        return f"{self.workers} x {self.connectors} x {self.tasks}"


FULL = (Shape(200, 100, 1_000), Shape(1_000, 1_000, 1_000), Shape(10_000, 1_000, 1_000))
SMALL = (Shape(50, 20, 40),)


def run(lab: Lab, short: bool) -> Result:
    """Live through the same events at each size."""
    result = Result("groups", "CPU s of the leader, bytes; one thread", "all_s", False, f"<{TARGET_S:.0f}s")
    for shape in SMALL if short else FULL:
        group = CompactGroup({f"connector-{n:05d}": shape.tasks for n in range(shape.connectors)})
        for name, change in _events(group, shape):
            change()
            figures = group.settle()
            group.check()
            peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
            result.runs.append(
                Run(
                    "ours",
                    {
                        "group": str(shape),
                        "event": name,
                        "all_s": round(figures.all_s, 2),
                        "worst_round_s": round(figures.leader_s, 2),
                        "rounds": figures.rounds,
                        "rounds_that_ask": figures.asked_rounds,
                        "sync_bytes": figures.sync_bytes,
                        "group_record_bytes": figures.record_bytes,
                        "peak_mib": peak_mib,
                    },
                )
            )
    result.conclude()
    result.met = max(result.values("ours")) < TARGET_S
    result.notes += [
        "group: workers x connectors x tasks of each; client.id is one letter: a record of 10,000 members asks for it",
        "peak_mib: of this process, which holds the leader, all members and the configuration",
    ]
    return result


def _events(group: CompactGroup, shape: Shape) -> Iterator[tuple[str, Callable[[], object]]]:
    tenth = max(1, shape.workers // 10)
    yield "all join", lambda: group.join(shape.workers)
    yield "nothing new", lambda: None
    yield "1 is gone", lambda: group.leave(1)
    yield "1 joins", lambda: group.join(1)
    yield "connector added", lambda: group.configure({**group.connectors, "connector-new": shape.tasks})
    yield "the leader is gone", group.change_leader
    yield f"{tenth} are gone", lambda: group.leave(tenth)
    yield f"{tenth} join", lambda: group.join(tenth)
