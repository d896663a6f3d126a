"""Assign: what a rebalance of a very large group costs its leader, and how much work it moves.

No broker and no workers: the leader is given the members' metadata bytes and gives back their SyncGroup bytes, as
the herder does it, one thread. Java's ``WorkerCoordinator`` does the same in its own JVM, on the same events.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field

from bench.lab import Lab
from bench.report import Result, Run
from spark_connect_rt.group.assignments import NOTHING, ConnectorsAndTasks
from spark_connect_rt.group.subprotocol import ConnectProtocol, decode_assignment, decode_metadata, encode_assignment
from tests.parity.group_history import GroupHistory, Leaders, Question
from tests.parity.java_leader import JavaLeader
from tests.parity.leaders import JavaLeaders, OurLeaders

TARGET_S = 5.0
DELAY_MS = 300_000
BROKER_LIMIT_BYTES = 1_048_588  # message.max.bytes: the coordinator keeps a group as one record
SESSIONED = ConnectProtocol.SESSIONED


@dataclass(frozen=True)
class Shape:
    """How large the group and its configuration are."""

    workers: int
    connectors: int
    tasks: int  # of each connector

    def __str__(self) -> str:
        return f"{self.workers} x {self.connectors} x {self.tasks}"


FULL = (Shape(1_000, 2_000, 50), Shape(1_000, 100, 1_000))
SMALL = (Shape(20, 10, 40),)


@dataclass
class TimedLeader:
    """Only the leader of the group lives; its answers are timed."""

    leaders: Leaders
    clock: Callable[[], float]  # seconds spent in answers so far
    leader: str = ""
    seconds: list[float] = field(default_factory=list)
    sync_bytes: list[int] = field(default_factory=list)
    record_bytes: list[int] = field(default_factory=list)

    def begin(self, worker: str, max_delay_ms: int) -> None:
        if not self.leader:
            self.leader = worker
            self.leaders.begin(worker, max_delay_ms)

    def ask(self, question: Question) -> Mapping[str, bytes]:
        begun = self.clock()
        answer = self.leaders.ask(question)
        self.seconds.append(self.clock() - begun)
        self.sync_bytes.append(sum(map(len, answer.values())))
        self.record_bytes.append(self.sync_bytes[-1] + sum(map(len, question.members.values())))
        return answer

    def synced(self, worker: str, protocol: ConnectProtocol, generation: int, assignment: bytes) -> None:
        if worker == self.leader:
            self.leaders.synced(worker, protocol, generation, assignment)


class Group:
    """A large group that goes from one settled state to the next."""

    def __init__(self, shape: Shape, leader: TimedLeader, max_delay_ms: int) -> None:
        self.timed = leader
        self.history = GroupHistory(leader, max_delay_ms)
        self.history.versions.append({f"connector-{n:05d}": shape.tasks for n in range(shape.connectors)})
        self.join(shape.workers)

    def join(self, count: int) -> None:
        """Let new workers join, named as brokers name members."""
        for n in range(len(self.history.held), len(self.history.held) + count):
            address = f"connect-10.0.{n // 250}.{n % 250}:8083"
            self.history.take(["join", f"{address}-{hash_of(n):032x}"])

    def leave(self, count: int) -> None:
        """Let the workers that joined last be gone."""
        for member in list(self.history.held)[-count:]:
            self.history.take(["leave", member])

    def settle(self) -> int:
        """Rebalance as the members would ask for it, until nothing is left to do; return the rounds."""
        for count in range(1, 20):
            answer = self.history.take(["round", {"leader": self.timed.leader}])
            assignments = [decode_assignment(blob) for blob in (answer or {}).values()]
            if assignments[0].delay_ms:
                self.history.take(["wait", assignments[0].delay_ms])
            elif not any(each.revokes for each in assignments):
                return count
        raise RuntimeError("the group does not settle")


def hash_of(number: int) -> int:
    """Return a number that looks like a member's UUID, the same each time."""
    return (number + 1) * 0x9E3779B97F4A7C15F39CC0605CEDC835 % 2**128


def events(group: Group, shape: Shape) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield what happens to the group, in order."""
    tenth, name = max(1, shape.workers // 10), "connector-new"
    yield "all join", lambda: None
    yield "nothing new", lambda: None
    yield "1 joins", lambda: group.join(1)
    yield "1 is gone", lambda: group.leave(1)
    yield f"{tenth} join", lambda: group.join(tenth)
    yield f"{tenth} are gone", lambda: group.leave(tenth)
    yield "connector added", lambda: group.history.take(["configure", name, shape.tasks])
    yield "connector deleted", lambda: group.history.take(["delete", name])


def run(lab: Lab, short: bool) -> Result:
    """Both sides live through the same events, lost work delayed and not; then the bare bytes, as a limit."""
    unit = "s of one assignment, bytes in, bytes out; one thread"
    result = Result("assign", unit, "worst_s", False, f"<{TARGET_S:.0f}s")
    with ExitStack() as stack:
        java = stack.enter_context(JavaLeader())
        for shape in SMALL if short else FULL:
            for times in range(1 if short else 2):  # Java's second time is warmer than a leader ever gets
                _java_side(result, java, shape, "java (1st)" if times == 0 and not short else "java")
            _our_side(result, shape, "ours")
    result.conclude()
    worst = max(result.values("ours"), default=TARGET_S)
    result.met = worst < TARGET_S
    largest = max(run.figures["group_record_bytes"] for run in result.runs if run.who == "ours")
    result.notes += [
        f"worst assignment of ours: {worst:.2f} s",
        "java (1st): a JVM that has just started, as a new leader's code is cold; java: the same once more",
        "stopped: tasks that left a worker still in the group; started: tasks that began anywhere",
        f"the broker keeps a group as one record, here up to {largest:,} bytes; it takes {BROKER_LIMIT_BYTES:,} unless "
        "message.max.bytes (or max.message.bytes of __consumer_offsets) says more, for Java's workers and ours alike",
    ]
    return result


def _java_side(result: Result, java: JavaLeader, shape: Shape, who: str) -> None:
    for max_delay_ms in (DELAY_MS, 0):
        leaders = JavaLeaders(java)
        _live(result, who, shape, TimedLeader(leaders, lambda seen=leaders: sum(seen.seconds)), max_delay_ms)


def _our_side(result: Result, shape: Shape, who: str) -> None:
    for max_delay_ms in (DELAY_MS, 0):
        timed = TimedLeader(OurLeaders(), time.perf_counter)
        group = _live(result, who, shape, timed, max_delay_ms)
    result.runs.append(Run("limit", {"group": str(shape), "event": "only bytes", "worst_s": _only_bytes(group)}))


def _live(result: Result, who: str, shape: Shape, timed: TimedLeader, max_delay_ms: int) -> Group:
    group = Group(shape, timed, max_delay_ms)
    for name, change in events(group, shape):
        if max_delay_ms == 0 and "gone" not in name and name != "all join":
            continue
        before = dict(group.history.held)
        rounds_before = len(timed.seconds)
        change()
        rounds = group.settle()
        stopped, started = _moves(before, group.history.held)
        figures = {
            "group": str(shape),
            "event": name if max_delay_ms or name == "all join" else f"{name}, no delay",
            "worst_s": round(max(timed.seconds[rounds_before:]), 3),
            "rounds": rounds,
            "stopped": stopped,
            "started": started,
            "sync_bytes": max(timed.sync_bytes[rounds_before:]),
            "group_record_bytes": max(timed.record_bytes[rounds_before:]),
        }
        result.runs.append(Run(who, figures))
    return group


def _moves(
    before: Mapping[str, ConnectorsAndTasks | None], after: Mapping[str, ConnectorsAndTasks | None]
) -> tuple[int, int]:
    stopped = started = 0
    for member, now in after.items():
        had, has = set((before.get(member) or NOTHING).tasks), set((now or NOTHING).tasks)
        stopped += len(had - has)
        started += len(has - had)
    return stopped, started


def _only_bytes(group: Group) -> float:
    """Return the seconds to read what the members say and to write what they hold, deciding nothing."""
    history = group.history
    members = {member: history.metadata(SESSIONED, member, 1) for member in history.held}
    begun = time.perf_counter()
    for blob in members.values():
        allocation = decode_metadata(blob).allocation
        if allocation:
            encode_assignment(SESSIONED, allocation)
    return round(time.perf_counter() - begun, 3)
