"""What is wrong with an internal topic: findings, and those about the topic itself (settings, partitions, copies).

Owns: the words of a finding. What records say is ``topics.store_check``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

Change = tuple[bytes, bytes | None]
"""Key and value of a record to write; None: a tombstone."""


class Severity(Enum):
    """What a finding means to a worker that starts on these topics."""

    DAMAGE = "damage"  # something the users configured or the tasks reached is lost, or will be
    WARNING = "warning"  # works today; read the explanation
    LEFTOVER = "leftover"  # of no use any more, harmless


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, where, why, and what would repair it."""

    code: str
    severity: Severity
    topic: str
    subject: str  # connector, task, key or setting
    explanation: str
    repair: tuple[Change, ...] = ()  # records to append to ``topic``; empty: writing does not repair it


@dataclass(frozen=True, slots=True)
class TopicShape:
    """One internal topic as the cluster describes it, and as the worker's file wants it."""

    kind: str  # configs, offsets or statuses
    name: str
    replicas: tuple[int, ...]  # copies of each partition; empty: there is no such topic
    in_sync: tuple[int, ...]
    cleanup_policy: str | None  # None: not known
    wanted_replication: int  # -1: the broker's default
    brokers: int  # how many the cluster has


def topic_findings(shape: TopicShape) -> Iterator[Finding]:
    """Yield what is wrong with the topic whatever it holds."""
    if not shape.replicas:
        explanation = "the topic does not exist: a worker creates it at its start"
        yield Finding("no-topic", Severity.WARNING, shape.name, shape.kind, explanation)
        return
    if shape.cleanup_policy not in (None, "compact"):
        explanation = (
            f"cleanup.policy is {shape.cleanup_policy} but must be compact, because the broker deletes old records"
        )
        yield Finding("wrong-cleanup-policy", Severity.DAMAGE, shape.name, "cleanup.policy", explanation)
    if shape.kind == "configs" and len(shape.replicas) != 1:
        explanation = f"{len(shape.replicas)} partitions, but must be 1, because the order of configurations is lost"
        yield Finding("wrong-partition-count", Severity.DAMAGE, shape.name, "partitions", explanation)
    wanted, copies = min(max(shape.wanted_replication, 1), shape.brokers), min(shape.replicas)
    if copies < wanted:
        explanation = (
            f"{copies} copies, but the worker's file has {shape.wanted_replication}: a single lost disk loses them all"
        )
        yield Finding("few-replicas", Severity.WARNING, shape.name, "replication.factor", explanation)
    behind = [number for number, copies in enumerate(shape.replicas) if shape.in_sync[number] < copies]
    if behind:
        explanation = f"copies of partitions {_some(behind)} are behind or on brokers that are down"
        yield Finding("out-of-sync", Severity.WARNING, shape.name, "replicas", explanation)


def _some(numbers: list[int]) -> str:
    shown = ", ".join(map(str, numbers[:10]))
    return f"{shown}, ..." if len(numbers) > 10 else shown
