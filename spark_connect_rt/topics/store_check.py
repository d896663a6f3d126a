"""Checks the records of the three internal topics. Pure: records in, findings out.

Owns: which records count as damage, and which are merely left over. The folds (``state``) interpret the records: the
check judges the state that a worker would see.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from spark_connect_rt.base.checked_lines import RawRecord
from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.base.json_text import canonical
from spark_connect_rt.errors import DataError
from spark_connect_rt.topics import config_records, offset_records, status_records
from spark_connect_rt.topics.config_records import RecordKind
from spark_connect_rt.topics.config_state import ClusterConfigState, ConfigFold
from spark_connect_rt.topics.status_records import State, TaskStatusKey, TopicStatusKey
from spark_connect_rt.topics.status_store import from_fields

# Findings about an internal topic, among them those about the topic itself (settings, partitions, copies).
#
# Owns: the text of a finding. ``topics.store_check`` judges the records.


Change = tuple[bytes, bytes | None]
"""Key and value of a record to write; None: a tombstone."""


class Severity(Enum):
    """The meaning of a finding to a worker that starts on these topics."""

    DAMAGE = "damage"  # something the users configured or the tasks reached is lost, or will be
    WARNING = "warning"  # works today; read the explanation
    LEFTOVER = "leftover"  # not used any more, harmless


@dataclass(frozen=True, slots=True)
class StoreFinding:
    """One problem: its place, its reason, and the repair."""

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


def topic_findings(shape: TopicShape) -> Iterator[StoreFinding]:
    """Yield problems of the topic itself, independent of its records."""
    if not shape.replicas:
        explanation = "the topic does not exist: a worker creates it at its start"
        yield StoreFinding("no-topic", Severity.WARNING, shape.name, shape.kind, explanation)
        return
    if shape.cleanup_policy not in (None, "compact"):
        explanation = (
            f"cleanup.policy is {shape.cleanup_policy} but must be compact, because the broker deletes old records"
        )
        yield StoreFinding("wrong-cleanup-policy", Severity.DAMAGE, shape.name, "cleanup.policy", explanation)
    if shape.kind == "configs" and len(shape.replicas) != 1:
        explanation = f"{len(shape.replicas)} partitions, but must be 1, because the order of configurations is lost"
        yield StoreFinding("wrong-partition-count", Severity.DAMAGE, shape.name, "partitions", explanation)
    wanted, copies = min(max(shape.wanted_replication, 1), shape.brokers), min(shape.replicas)
    if copies < wanted:
        explanation = (
            f"{copies} copies, but the worker's file has {shape.wanted_replication}: a single lost disk loses them all"
        )
        yield StoreFinding("few-replicas", Severity.WARNING, shape.name, "replication.factor", explanation)
    behind = [number for number, copies in enumerate(shape.replicas) if shape.in_sync[number] < copies]
    if behind:
        explanation = f"copies of partitions {_some(behind)} are behind or on brokers that are down"
        yield StoreFinding("out-of-sync", Severity.WARNING, shape.name, "replicas", explanation)


def _some(numbers: list[int]) -> str:
    shown = ", ".join(map(str, numbers[:10]))
    return f"{shown}, ..." if len(numbers) > 10 else shown


DAMAGE, WARNING, LEFTOVER = Severity.DAMAGE, Severity.WARNING, Severity.LEFTOVER
_OF_CONNECTORS = (RecordKind.TASK, RecordKind.COMMIT, RecordKind.TASK_COUNT)


@dataclass(frozen=True, slots=True)
class Stored:
    """Names and records of the three topics, each topic's in order per partition."""

    names: Mapping[str, str]  # configs, offsets, statuses -> topic
    configs: Sequence[RawRecord]
    offsets: Sequence[RawRecord]
    statuses: Sequence[RawRecord]
    group_runs: bool = False
    exactly_once: bool = False


def live_records(records: Sequence[RawRecord]) -> list[RawRecord]:
    """Return the last record of each key unless it is a tombstone, in the order given."""
    last = {(record[0], record[2]): record for record in records}
    return [record for record in records if record[3] is not None and last[record[0], record[2]] is record]


def fold_configs(records: Sequence[RawRecord]) -> tuple[ClusterConfigState, dict[bytes | None, str]]:
    """Return a worker's view of the config topic, and why it ignores the last record of a key."""
    fold, ignored = ConfigFold(), dict[bytes | None, str]()
    for _, offset, key, value, _ in records:
        ignored.pop(key, None)
        try:
            fold.apply(offset, key, value)
        except DataError as error:
            ignored[key] = str(error)
    return fold.snapshot(), ignored


def record_findings(stored: Stored) -> list[StoreFinding]:
    """Return the findings from the records of all topics."""
    state, ignored = fold_configs(stored.configs)
    found = [*_config_findings(stored, state, ignored), *_offset_findings(stored, state)]
    return [*found, *_status_findings(stored, state)]


def _config_findings(
    stored: Stored, state: ClusterConfigState, ignored: Mapping[bytes | None, str]
) -> Iterator[StoreFinding]:
    topic = stored.names["configs"]
    live = {key: value for _, _, key, value, _ in live_records(stored.configs) if key is not None}
    for key, why in ignored.items():
        if key in live:
            yield StoreFinding("unreadable-config", DAMAGE, topic, _shown(key), f"workers ignore this record: {why}")
    for name in state.connectors():
        yield from _task_findings(topic, name, state, live, stored)
    dead: dict[str, int] = defaultdict(int)
    for key in live:
        record = _config_key(key)
        if record is None or state.contains(record.name):
            continue
        if record.kind is RecordKind.TARGET_STATE:
            explanation = "a target state without its connector: a new connector of this name would not be started"
            yield StoreFinding("orphan-target-state", WARNING, topic, record.name, explanation, ((key, None),))
        elif record.kind in _OF_CONNECTORS:
            dead[record.name] += 1
    for name, count in sorted(dead.items()):
        explanation = (
            f"{count} task, commit or task-count records of a deleted connector. Connect keeps them without using them"
        )
        yield StoreFinding("dead-tasks", LEFTOVER, topic, name, explanation)


def _task_findings(
    topic: str, name: str, state: ClusterConfigState, live: Mapping[bytes, bytes | None], stored: Stored
) -> Iterator[StoreFinding]:
    commit, count = config_records.commit_key(name), state.task_count(name)
    if commit not in live:
        explanation = (
            "no commit record: its tasks were never created, or the record was lost. The leader creates them again"
        )
        yield StoreFinding("no-commit", WARNING, topic, name, explanation)
    elif not count and _committed(live[commit]):
        explanation = "the commit is older than the connector (compaction, or it was created again), so no task runs"
        yield StoreFinding(
            "commit-before-connector", WARNING, topic, name, f"{explanation} until the leader makes them again"
        )
    elif name in state.inconsistent:
        yield _inconsistent(topic, name, count, live)
    elif late := _tasks_after_commit(name, stored.configs):
        explanation = f"configurations of tasks {late} wait for a commit: a leader died, or is writing at the moment"
        yield StoreFinding("uncommitted-tasks", WARNING, topic, name, explanation)
    elif name in state.overtaken:
        explanation = (
            f"configured after the commit of its {count} tasks: workers that start after the next compaction see none"
        )
        yield StoreFinding("overtaken-commit", WARNING, topic, name, explanation, _written_again(name, count, live))
    if stored.exactly_once and count and state.task_count_record(name) is None:
        explanation = "no task-count record: producers of earlier tasks are not fenced before the next ones start"
        yield StoreFinding("no-task-count", WARNING, topic, name, explanation)


def _inconsistent(topic: str, name: str, count: int, live: Mapping[bytes, bytes | None]) -> StoreFinding:
    missing = [number for number in range(count) if _task_key(name, number) not in live]
    if missing:
        explanation = f"the commit has {count} tasks, but the configurations of {missing} are missing, so no task runs"
        return StoreFinding("lost-tasks", DAMAGE, topic, name, f"{explanation} until the leader makes them again")
    explanation = f"{count} task configurations were written after their commit (compaction, or a leader died)"
    repair = _written_again(name, count, live)
    return StoreFinding("tasks-without-commit", DAMAGE, topic, name, f"{explanation}: no task runs", repair)


def _written_again(name: str, count: int, live: Mapping[bytes, bytes | None]) -> tuple[Change, ...]:
    """Return the whole task set, to be written after everything else; empty when a part of it is missing."""
    keys = [*(_task_key(name, number) for number in range(count)), config_records.commit_key(name)]
    return tuple((key, live[key]) for key in keys) if all(key in live for key in keys) else ()


def _task_key(name: str, number: int) -> bytes:
    return config_records.task_key(ConnectorTaskId(name, number))


def _committed(value: bytes | None) -> int:
    """Return how many tasks a commit record names, 0 when that cannot be read."""
    try:
        return config_records.decode_commit(config_records.decode_value(value))
    except DataError:
        return 0


def _tasks_after_commit(name: str, records: Sequence[RawRecord]) -> list[int]:
    waiting: set[int] = set()
    for _, _, raw, value, _ in records:
        key = _config_key(raw)
        if key is None or key.name != name:
            continue
        if key.kind is RecordKind.TASK and key.task is not None:
            waiting.add(key.task)
        elif key.kind is RecordKind.COMMIT or (key.kind is RecordKind.CONNECTOR and value is None):
            waiting.clear()
    return sorted(waiting)


def _offset_findings(stored: Stored, state: ClusterConfigState) -> Iterator[StoreFinding]:
    topic = stored.names["offsets"]
    yield from _scattered_findings(topic, stored.offsets)
    spellings: dict[tuple[str, object], set[bytes]] = defaultdict(set)
    deleted: dict[str, list[Change]] = defaultdict(list)
    for partition, offset, key, value, _ in live_records(stored.offsets):
        try:
            connector, source_partition = offset_records.decode_key(key)
            offset_records.decode_value(value)
        except DataError as error:
            where = f"partition {partition} offset {offset}"
            yield StoreFinding("unreadable-offset", DAMAGE, topic, where, f"workers ignore this record: {error}")
            continue
        assert key is not None  # decode_key raised otherwise
        spellings[connector, canonical(source_partition)].add(key)
        if not state.contains(connector):
            deleted[connector].append((key, None))
    for (connector, _), keys in spellings.items():
        if len(keys) > 1:
            shown = ", ".join(sorted(map(_shown, keys)))
            explanation = f"one source partition has {len(keys)} keys, of which Java uses any: {shown}"
            yield StoreFinding("double-offset", WARNING, topic, connector, explanation)
    for name, changes in sorted(deleted.items()):
        explanation = f"{len(changes)} offsets of a deleted connector: a new one with the same name would resume there"
        yield StoreFinding("offsets-of-deleted", LEFTOVER, topic, name, explanation, tuple(changes))


def _scattered_findings(topic: str, records: Sequence[RawRecord]) -> Iterator[StoreFinding]:
    """Yield the keys that have live records in several partitions. Workers of ours take the newest, Java's any."""
    places: dict[bytes | None, set[int]] = defaultdict(set)
    for partition, _, key, _, _ in live_records(records):
        places[key].add(partition)
    for key, found in places.items():
        if key is not None and len(found) > 1:
            explanation = (
                f"live records in partitions {sorted(found)} (partitions were added, or another client wrote): "
                "Java uses any of them, our workers the newest, and their next write of the key removes the "
                "others"
            )
            yield StoreFinding("scattered-key", WARNING, topic, _shown(key), explanation)


def _status_findings(stored: Stored, state: ClusterConfigState) -> Iterator[StoreFinding]:
    topic = stored.names["statuses"]
    yield from _scattered_findings(topic, stored.statuses)
    leftover: dict[str, list[Change]] = defaultdict(list)
    running = 0
    for partition, offset, key, value, _ in live_records(stored.statuses):
        try:
            subject = status_records.decode_key(key)
            if isinstance(subject, TopicStatusKey):
                status_records.decode_topic_status(value or b"")
            elif subject is not None:
                running += from_fields(status_records.decode_status(value or b"")).state is State.RUNNING
        except DataError as error:
            where = f"partition {partition} offset {offset}"
            yield StoreFinding("unreadable-status", WARNING, topic, where, f"workers ignore this record: {error}")
            continue
        if subject is None:
            yield StoreFinding(
                "unknown-status", WARNING, topic, _shown(key), "a key of a kind that this version does not support"
            )
            continue
        assert key is not None  # decode_key returned None otherwise
        name = subject.task.connector if isinstance(subject, TaskStatusKey) else subject.connector
        gone = isinstance(subject, TaskStatusKey) and subject.task.task >= state.task_count(name)
        if not state.contains(name) or gone:
            leftover[name].append((key, None))
    for name, changes in sorted(leftover.items()):
        explanation = f"{len(changes)} statuses of deleted connectors or tasks; the leader removes them"
        yield StoreFinding("statuses-of-deleted", LEFTOVER, topic, name, explanation, tuple(changes))
    if running and not stored.group_runs:
        explanation = f"{running} statuses are RUNNING, but no worker is in the group: the workers were killed"
        yield StoreFinding("stale-running", LEFTOVER, topic, "group", explanation)


def _config_key(key: bytes | None) -> config_records.RecordKey | None:
    try:
        return config_records.decode_key(key)
    except DataError:
        return None


def _shown(key: bytes | None) -> str:
    return "no key" if key is None else key.decode("utf-8", errors="backslashreplace")
