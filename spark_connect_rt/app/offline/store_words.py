"""What the ``store`` and ``offsets`` commands show and write, made from findings and records. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from spark_connect_rt.errors import DataError
from spark_connect_rt.kafka.admin import TopicSpec
from spark_connect_rt.topics import offset_records
from spark_connect_rt.topics.offset_changes import OffsetPair, one_per_partition
from spark_connect_rt.topics.offset_records import OffsetMap, canonical
from spark_connect_rt.topics.store_check import Stored, fold_configs, live_records
from spark_connect_rt.topics.store_findings import Change, Finding


def finding_rows(findings: Sequence[Finding]) -> list[tuple[str, ...]]:
    """Return a table's rows, damage first."""
    order = {"damage": 0, "warning": 1, "leftover": 2}
    ordered = sorted(findings, key=lambda finding: order[finding.severity.value])
    return [
        (finding.severity.value, finding.code, finding.topic, finding.subject, finding.explanation)
        for finding in ordered
    ]


def report(findings: Sequence[Finding]) -> dict[str, Any]:
    """Return the JSON document of a check: counts by severity, and every finding."""
    counts = {"damage": 0, "warning": 0, "leftover": 0}
    for finding in findings:
        counts[finding.severity.value] += 1
    listed = [
        {
            "severity": finding.severity.value,
            "code": finding.code,
            "topic": finding.topic,
            "subject": finding.subject,
            "explanation": finding.explanation,
            "repair_records": len(finding.repair),
        }
        for finding in findings
    ]
    return {**counts, "findings": listed}


def repairs(findings: Sequence[Finding], specs: Mapping[str, TopicSpec]) -> dict[str, list[Change]]:
    """Return what repairs the findings, by kind of topic."""
    kinds = {spec.name: kind for kind, spec in specs.items()}
    changes: dict[str, list[Change]] = {}
    for finding in findings:
        if finding.repair:
            changes.setdefault(kinds[finding.topic], []).extend(finding.repair)
    return changes


def offsets_of(stored: Stored, connector: str | None = None) -> list[dict[str, Any]]:
    """Return every readable offset: connector, partition, offset, when it was written, whether the connector is."""
    state, _ = fold_configs(stored.configs)
    found = []
    for _, _, key, value, timestamp_ms in live_records(stored.offsets):
        try:
            name, partition = offset_records.decode_key(key)
            offset = offset_records.decode_value(value)
        except DataError:
            continue
        if connector in (None, name):
            written = datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="seconds")
            known = "configured" if state.contains(name) else "deleted"
            found.append(
                {"connector": name, "partition": partition, "offset": offset, "written": written, "state": known}
            )
    return sorted(found, key=lambda row: (row["connector"], str(row["partition"])))


def prunable(stored: Stored, connector: str | None = None) -> list[Change]:
    """Return the tombstones for the offsets of deleted connectors."""
    state, _ = fold_configs(stored.configs)
    changes: list[Change] = []
    for _, _, key, _, _ in live_records(stored.offsets):
        try:
            name, _ = offset_records.decode_key(key)
        except DataError:
            continue
        if key is not None and not state.contains(name) and connector in (None, name):
            changes.append((key, None))
    return changes


def change_rows(now: Sequence[OffsetPair], wanted: Sequence[OffsetPair] | None) -> list[tuple[str, str, str]]:
    """Return partition, offset now and offset then of everything that a change is about; wanted None: a reset."""
    held = {canonical(partition): (partition, offset) for partition, offset in now}
    if wanted is None:
        wanted = [(partition, None) for partition, _ in held.values()]
    rows = []
    for partition, then in one_per_partition(wanted):
        _, before = held.get(canonical(partition), (partition, None))
        rows.append((_json(partition), _json(before), _json(then)))
    return sorted(rows)


def _json(fields: OffsetMap | None) -> str:
    return "none" if fields is None else json.dumps(fields, ensure_ascii=False)
