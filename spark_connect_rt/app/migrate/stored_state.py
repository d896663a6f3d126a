"""Judges what the three internal topics and the group hold: damage, offsets, what has FAILED, who is a member."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from spark_connect_rt.app.migrate.findings import Fate, Line
from spark_connect_rt.app.migrate.rules import Given
from spark_connect_rt.config.stored_config import NO_SETTINGS
from spark_connect_rt.errors import DataError
from spark_connect_rt.topics import offset_records, status_records
from spark_connect_rt.topics.status_records import ConnectorStatusKey, TaskStatusKey
from spark_connect_rt.topics.store_check import Stored, fold_configs, live_records
from spark_connect_rt.topics.store_findings import Finding, Severity

_FAILED = "FAILED"


def topic_lines(stored: Stored, findings: Sequence[Finding], workers: Sequence[str]) -> list[Line]:
    """Return what there is to say about topics and group; ``workers``: the members' REST addresses."""
    state, _ = fold_configs(stored.configs)
    offsets = _offset_counts(stored)
    lines = [
        Line("group members", str(len(workers)), Fate.SAME, ", ".join(workers) or "no worker runs now"),
        Line(
            stored.names["configs"],
            f"{len(state.connectors())} connectors",
            Fate.SAME,
            "read and written in Java's bytes",
        ),
        Line(stored.names["offsets"], f"{sum(offsets.values())} source partitions", Fate.SAME, _counted(offsets)),
        Line(stored.names["statuses"], f"{len(live_records(stored.statuses))} records", Fate.SAME, ""),
    ]
    for finding in findings:
        if finding.severity is not Severity.LEFTOVER:
            fate = Fate.CHANGE if finding.severity is Severity.DAMAGE else Fate.DIFFERS
            lines.append(Line(f"{finding.topic}: {finding.code}", finding.subject, fate, finding.explanation))
    return lines


def given_connectors(stored: Stored, worker: Mapping[str, str]) -> list[Given]:
    """Return every connector of the config topic with what is known of it."""
    state, _ = fold_configs(stored.configs)
    failed = _failed(stored)
    return [
        Given(
            name,
            (state.connector_config(name) or NO_SETTINGS).written(),
            target.value if (target := state.target_state(name)) else "",
            state.task_count(name),
            failed.get(name, ()),
            worker,
        )
        for name in state.connectors()
    ]


def _offset_counts(stored: Stored) -> Counter[str]:
    found: Counter[str] = Counter()
    for _, _, key, _, _ in live_records(stored.offsets):
        try:
            found[offset_records.decode_key(key)[0]] += 1
        except DataError:
            continue
    return found


def _counted(offsets: Counter[str]) -> str:
    named = ", ".join(f"{name}: {count}" for name, count in sorted(offsets.items()))
    return f"sources resume at their offsets ({named})" if named else "none yet"


def _failed(stored: Stored) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for _, _, key, value, _ in live_records(stored.statuses):
        try:
            subject = status_records.decode_key(key)
            if not isinstance(subject, ConnectorStatusKey | TaskStatusKey):
                continue
            if status_records.decode_status(value or b"").state != _FAILED:
                continue
        except DataError:
            continue
        if isinstance(subject, TaskStatusKey):
            found[subject.task.connector].append(f"task {subject.task.task}")
        else:
            found[subject.connector].append("connector")
    return found
