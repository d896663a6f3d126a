"""Implements ``connectrt store`` and ``connectrt offsets``: topics in, tables, files and exit codes out."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from spark_connect_rt.app.offline.internal_topics import InternalTopics, Refusals
from spark_connect_rt.app.offline.store_backup import StoreBackup, decode_backup, encode_backup
from spark_connect_rt.base.concurrency import SystemClock
from spark_connect_rt.base.exit_codes import EXIT_BAD_BACKUP, EXIT_DAMAGE
from spark_connect_rt.base.json_text import canonical
from spark_connect_rt.errors import BadRequestError, DataError, StartupError
from spark_connect_rt.kafka.admin import TopicSpec
from spark_connect_rt.operations.history.command_history import record_offsets
from spark_connect_rt.topics import offset_records
from spark_connect_rt.topics.offset_changes import PRUNE, OffsetPair, OffsetsChanged, one_per_partition
from spark_connect_rt.topics.offset_records import OffsetMap
from spark_connect_rt.topics.store_check import Change, Severity, Stored, StoreFinding, fold_configs, live_records

# Output of the ``store`` and ``offsets`` commands, made from findings and records. Pure.


def finding_rows(findings: Sequence[StoreFinding]) -> list[tuple[str, ...]]:
    """Return a table's rows, damage first."""
    order = {"damage": 0, "warning": 1, "leftover": 2}
    ordered = sorted(findings, key=lambda finding: order[finding.severity.value])
    return [
        (finding.severity.value, finding.code, finding.topic, finding.subject, finding.explanation)
        for finding in ordered
    ]


def report(findings: Sequence[StoreFinding]) -> dict[str, Any]:
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


def repairs(findings: Sequence[StoreFinding], specs: Mapping[str, TopicSpec]) -> dict[str, list[Change]]:
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


def check(settings: Mapping[str, str], as_json: bool) -> int:
    """Print what is wrong; return the exit code."""
    with InternalTopics(settings) as topics:
        findings = topics.findings()
    if as_json:
        _print_json(report(findings))
    elif not findings:
        say("no problems found")
    else:
        print_table(("severity", "code", "topic", "subject", "what it means"), finding_rows(findings))
    return EXIT_DAMAGE if any(finding.severity is Severity.DAMAGE for finding in findings) else 0


def backup(settings: Mapping[str, str], target: Path) -> int:
    """Write a backup of all three topics."""
    with InternalTopics(settings) as topics:
        kept = keep_backup(topics, target)
    print_table(("topic", "records"), [(topic.name, str(len(topic.records))) for topic in kept.topics.values()])
    return 0


def restore(settings: Mapping[str, str], source: Path, apply: bool, into_used: bool, while_running: bool) -> int:
    """Write a backup's records into the topics of these settings."""
    backup = _read_backup(source)
    refuse = Refusals(running_group=not while_running, records=not into_used)
    with InternalTopics(settings) as topics:
        written = topics.restore(backup, refuse, apply)
    rows = [(backup.topics[kind].name, name, str(count)) for kind, (name, count) in written.items()]
    print_table(("from", "to", "records"), rows)
    say("restored" if apply else "nothing was written. Use --apply to write")
    return 0


def repair(settings: Mapping[str, str], safety: Path, apply: bool, while_running: bool) -> int:
    """Write what repairs the findings, after a backup."""
    with InternalTopics(settings) as topics:
        changes = repairs(topics.findings(), topics.specs)
        count = sum(map(len, changes.values()))
        if apply and count:
            if not while_running:
                topics.refuse_running_group()
            keep_backup(topics, safety)
            for kind, records in changes.items():
                topics.append(kind, records, SystemClock().now_ms())
    say(_outcome(count, apply, safety))
    return 0


def list_offsets(settings: Mapping[str, str], connector: str | None, as_json: bool) -> int:
    """Print every source offset; return the exit code."""
    with InternalTopics(settings) as topics:
        found = offsets_of(topics.stored(), connector)
    if as_json:
        _print_json(found)
    else:
        words = ("connector", "partition", "offset", "written", "connector is")
        print_table(words, [tuple(map(_cell, row.values())) for row in found])
    return 0


def prune_offsets(settings: Mapping[str, str], safety: Path, connector: str | None, apply: bool) -> int:
    """Forget the offsets of deleted connectors, after a backup."""
    with InternalTopics(settings) as topics:
        changes = prunable(topics.stored(), connector)
        if apply and changes:
            before = offsets_of(topics.stored(), connector)
            keep_backup(topics, safety)
            topics.append("offsets", changes, SystemClock().now_ms())
            record_offsets(topics.config, _pruned(before), say)
    say(_outcome(len(changes), apply, safety))
    return 0


def _pruned(before: Sequence[Mapping[str, Any]]) -> list[OffsetsChanged]:
    """Return the change of each connector that is deleted: all its offsets are gone."""
    found: dict[str, list[OffsetPair]] = {}
    for row in before:
        if row["state"] == "deleted":
            found.setdefault(row["connector"], []).append((row["partition"], row["offset"]))
    return [OffsetsChanged(name, PRUNE, pairs, []) for name, pairs in found.items()]


def keep_backup(topics: InternalTopics, target: Path) -> StoreBackup:
    """Write the backup and read it again. Raises BadRequestError: the file is there, or cannot be written."""
    backup = topics.backup(SystemClock().now_ms())
    try:
        with target.open("xb") as file:
            file.writelines(encode_backup(backup))
        if decode_backup(target.read_bytes()) != backup:
            raise BadRequestError(f"{target} does not contain what was written to it")
    except OSError as error:
        raise BadRequestError(f"the backup {target} cannot be written: {error.strerror}") from error
    return backup


def _read_backup(source: Path) -> StoreBackup:
    try:
        return decode_backup(source.read_bytes())
    except (OSError, DataError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        message = f"the backup {source} cannot be used: {why}"
        raise StartupError(message, exit_code=EXIT_BAD_BACKUP, code="CRT-1092") from error


def _outcome(count: int, apply: bool, safety: Path) -> str:
    if not count:
        return "nothing to write"
    return (
        f"{count} records written; backup: {safety}"
        if apply
        else f"{count} records to write. Use --apply to write them"
    )


def print_table(words: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows below their words; as wide as the terminal, 200 columns into a file."""
    table = Table(*words)
    for row in rows:
        table.add_row(*map(escape, row))  # names and values may look like rich's markup
    Console(width=None if sys.stdout.isatty() else 200).print(table)


def _print_json(document: Any) -> None:
    sys.stdout.write(json.dumps(document, indent=1, ensure_ascii=False) + "\n")


def say(sentence: str) -> None:
    """Print one line to standard output."""
    sys.stdout.write(f"{sentence}\n")


def _cell(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
