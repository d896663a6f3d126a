"""Made-up histories of worker groups, lived through by any leader: Java's, to record it, and ours, to compare.

A step is a JSON list; ``GroupHistory`` turns it into what a leader is really given, metadata bytes and config
snapshots, asks it, and lets the members do as they are told. Member ids are single letters: of those, and only
of few such, Java's hash maps happen to keep the order of the alphabet, in which ours goes.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.group.assignments import NOTHING, ConnectorsAndTasks
from spark_connect_rt.group.rebalance_plan import allocation_of, held_after
from spark_connect_rt.group.subprotocol import (
    Assignment,
    ConnectProtocol,
    WorkerMetadata,
    decode_assignment,
    encode_metadata,
)

MEMBERS = "abcdefghijkl"
CONNECTORS = ("c", "b1", "Z9", "orders-to-lake", "a.very.long/name with sign ü".replace(" ", "_"), "t5", "t50", "q")
DELAYS_MS = (0, 100, 5_000, 300_000)
Configured = Mapping[str, int | None]
Step = list[Any]


@dataclass(frozen=True)
class Question:
    """What a leader knows when it must assign: ``joined_with`` and ``store`` are (config offset, configured)."""

    leader: str
    protocol: ConnectProtocol
    generation: int
    now_ms: int
    members: Mapping[str, bytes]
    joined_with: tuple[int, Configured]
    store: tuple[int, Configured]


class Leaders(Protocol):
    """The workers' leading halves, each with a memory of its own."""

    def begin(self, worker: str, max_delay_ms: int) -> None: ...

    def ask(self, question: Question) -> Mapping[str, bytes]: ...

    def synced(self, worker: str, protocol: ConnectProtocol, generation: int, assignment: bytes) -> None: ...


@dataclass
class GroupHistory:
    """One group; ``take`` a step, and get the leader's answer when the step was a round."""

    leaders: Leaders
    max_delay_ms: int
    now_ms: int = 1_000_000
    generation: int = 0
    versions: list[dict[str, int | None]] = field(default_factory=lambda: [{}])
    held: dict[str, ConnectorsAndTasks | None] = field(default_factory=dict)
    last: dict[str, Assignment] = field(default_factory=dict)
    away: dict[str, ConnectorsAndTasks | None] = field(default_factory=dict)

    def take(self, step: Step) -> Mapping[str, bytes] | None:
        """Do one step; ``None`` unless it was a round."""
        match step:
            case ["join", str(member)]:
                self.held[member] = None
                self.last.pop(member, None)
                self.leaders.begin(member, self.max_delay_ms)
            case ["leave", str(member)]:
                self.away[member] = self.held.pop(member)
            case ["return", str(member)]:
                self.held[member] = self.away.pop(member)
            case ["configure", str(connector), tasks]:
                self.versions.append({**self.versions[-1], connector: tasks})
            case ["delete", str(connector)]:
                self.versions.append({name: n for name, n in self.versions[-1].items() if name != connector})
            case ["claim", str(member), list(connectors), list(tasks)]:
                claimed = ConnectorsAndTasks(tuple(connectors), tuple(ConnectorTaskId(c, n) for c, n in tasks))
                self.held[member] = (self.held[member] or NOTHING) | claimed
                self.last.setdefault(member, Assignment("", "", 0))
            case ["wait", int(ms)]:
                self.now_ms += ms
            case ["round", dict(how)]:
                return self._round(**how)
            case _:
                raise ValueError(f"no such step: {step}")
        return None

    def _round(
        self,
        leader: str,
        protocol: str = "sessioned",
        lag: int = 0,
        store_lag: int = 0,
        behind: str = "",
        deaf: str = "",
    ) -> Mapping[str, bytes]:
        """Rebalance. The leader joined ``lag`` versions ago, its store lacks ``store_lag``, ``deaf`` hear nothing."""
        self.generation += 1
        spoken = ConnectProtocol(protocol)
        newest = len(self.versions) - 1
        offsets = {member: max(0, newest - (member in behind)) for member in self.held}
        offsets[leader] = max(0, newest - max(lag, store_lag))
        store = max(0, newest - store_lag)
        members = {member: self.metadata(spoken, member, offset) for member, offset in offsets.items()}
        answer = self.leaders.ask(
            Question(
                leader,
                spoken,
                self.generation,
                self.now_ms,
                members,
                (offsets[leader], self.versions[offsets[leader]]),
                (store, self.versions[store]),
            )
        )
        for member in sorted(set(answer) - set(deaf)):
            self._hear(member, spoken, answer[member])
        return answer

    def metadata(self, protocol: ConnectProtocol, member: str, offset: int) -> bytes:
        """Return what a member says of itself when it joins."""
        allocation = allocation_of(self.held[member], self.last.get(member))
        return encode_metadata(protocol, WorkerMetadata(f"http://{member}:8083/", offset, allocation))

    def _hear(self, member: str, protocol: ConnectProtocol, blob: bytes) -> None:
        told = decode_assignment(blob)
        self.leaders.synced(member, protocol, self.generation, blob)
        self.last[member] = told
        if not told.failed:
            self.held[member] = held_after(self.held[member], told, protocol.is_incremental)


def make_up(seed: int, steps: int) -> tuple[int, list[Step]]:
    """Return (delay limit, steps) of one history; the same seed gives the same one on the same Python."""
    chance = random.Random(seed)
    return chance.choice(DELAYS_MS), list(_Author(chance).write(steps))


class _Author:
    """Writes steps that make sense in their order; knows who is in the group, not what it runs."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.members: list[str] = []
        self.away: list[str] = []
        self.configured: dict[str, int | None] = {}
        self.leader = ""
        self.protocol = chance.choice(["sessioned"] * 6 + ["compatible"] * 2 + ["eager"])

    def write(self, count: int) -> list[Step]:
        written: list[Step] = [self._join() for _ in range(self.chance.randint(1, 4))]
        written += [self._configure() for _ in range(self.chance.randint(1, 5))]
        while len(written) < count:
            written += [self._anything() for _ in range(self.chance.choice([0, 1, 1, 1, 2, 3]))]
            written.append(self._round())
        return written

    def _anything(self) -> Step:
        kinds = [self._join, self._leave, self._return, self._configure, self._delete, self._wait, self._claim]
        return self.chance.choices(kinds, [5, 3, 2, 4, 2, 4, 1])[0]()

    def _join(self) -> Step:
        outside = [m for m in MEMBERS if m not in self.members]
        if not outside:
            return self._wait()
        member = self.chance.choice(outside)
        self.members.append(member)
        if member in self.away:
            self.away.remove(member)
        return ["join", member]

    def _leave(self) -> Step:
        if len(self.members) < 2:
            return self._join()
        member = self.chance.choice(self.members)
        self.members.remove(member)
        self.away.append(member)
        return ["leave", member]

    def _return(self) -> Step:
        if not self.away:
            return self._leave()
        member = self.away.pop()
        self.members.append(member)
        return ["return", member]

    def _configure(self) -> Step:
        connector = self.chance.choice(CONNECTORS)
        tasks = None if self.chance.random() < 0.05 else self.chance.choice([0, 1, 2, 3, 4, 8, 12, 30])
        self.configured[connector] = tasks
        return ["configure", connector, tasks]

    def _delete(self) -> Step:
        if not self.configured:
            return self._configure()
        connector = self.chance.choice(sorted(self.configured))
        del self.configured[connector]
        return ["delete", connector]

    def _wait(self) -> Step:
        return ["wait", self.chance.choice([1, 39, 40, 99, 1_600, 4_999, 64_000, 150_000, 299_999, 300_000])]

    def _claim(self) -> Step:
        connector = self.chance.choice(CONNECTORS)
        tasks = [[connector, n] for n in range(self.chance.randint(0, 3))]
        return ["claim", self.chance.choice(self.members), [connector] * self.chance.randint(0, 1), tasks]

    def _round(self) -> Step:
        if self.leader not in self.members or self.chance.random() < 0.05:
            self.leader = self.chance.choice(self.members)
        how: dict[str, Any] = {"leader": self.leader}
        if self.protocol != "sessioned":
            how["protocol"] = self.protocol
        if self.chance.random() < 0.02:
            how["protocol"] = self.chance.choice(["eager", "compatible", "sessioned"])
        if self.chance.random() < 0.1:
            how["lag"] = 1
        if self.chance.random() < 0.04:
            how["store_lag"] = self.chance.randint(1, 2)
        if self.chance.random() < 0.1:
            how["behind"] = "".join(m for m in self.members if self.chance.random() < 0.7)
        if self.chance.random() < 0.1:
            how["deaf"] = "".join(m for m in self.members if self.chance.random() < 0.5)
        return ["round", how]
