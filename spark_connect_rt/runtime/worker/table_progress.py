"""Progress of the tables that a sink writes, from the metrics of its tasks (group ``table-sink-metrics``)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from typing import Any

from spark_connect_rt.engine.task_runner import COUNT, NUMBER, PREFIX, SUM, VALUE, PluginMetricKey, part_of, parted
from spark_connect_rt.runtime.values import TableProgress
from spark_connect_rt.runtime.worker.task_measures import TaskMeasures

GROUP, TABLE = "table-sink-metrics", "table"
_COUNTED = {
    "table-commits": "commits",
    "table-rows": "rows",
    "table-deleted-rows": "deleted_rows",
    "table-bytes": "bytes",
    "table-files": "files",
    "table-lost-races": "lost_races",
    "table-fenced-partitions": "fenced_partitions",
}
_NOW = {"table-waiting-rows": "waiting_rows", "table-lag-s": "lag_s"}
_COMMIT_MS = "table-commit-ms"


def table_progress(measures: TaskMeasures) -> tuple[TableProgress, ...]:
    """Return the progress of one task with each table, by the name of the table. Empty: it writes none."""
    found: dict[str, dict[str, Any]] = {}
    for name in (*measures.names(PREFIX), *measures.values()):
        key, part = parted(name)
        group, metric, tags = PluginMetricKey.decode(key)
        if group != GROUP or TABLE not in tags:
            continue
        row = found.setdefault(tags[TABLE], {})
        if part == COUNT and metric in _COUNTED:
            row[_COUNTED[metric]] = int(measures.total(name))
        elif part == VALUE and metric in _NOW:
            value = measures.values()[name]
            row[_NOW[metric]] = int(value) if metric == "table-waiting-rows" else round(value, 3)
        elif part == NUMBER and metric == _COMMIT_MS:
            row["commit_ms"] = round(measures.total(part_of(key, SUM)) / measures.total(name), 1)
    return tuple(TableProgress(table, **row) for table, row in sorted(found.items()))


def added_up(parts: Iterable[TableProgress]) -> tuple[TableProgress, ...]:
    """Return one row for each table: sums of counts, the longest commit and the greatest lag."""
    found: dict[str, TableProgress] = {}
    for part in parts:
        known = found.get(part.table)
        found[part.table] = part if known is None else _sum(known, part)
    return tuple(found[table] for table in sorted(found))


def _sum(first: TableProgress, other: TableProgress) -> TableProgress:
    changed: dict[str, Any] = {}
    for name in (field.name for field in fields(TableProgress) if field.name != TABLE):
        values = [value for value in (getattr(first, name), getattr(other, name)) if value is not None]
        combine = max if name in ("commit_ms", "lag_s") else sum
        changed[name] = combine(values) if values else None
    return replace(first, **changed)


def progress_of(given: Mapping[str, Any]) -> TableProgress | None:
    """Return the progress that another worker sent. None for a newer or malformed form. Unknown fields are dropped."""
    known = {field.name: given[field.name] for field in fields(TableProgress) if field.name in given}
    try:
        return TableProgress(**known)
    except TypeError:
        return None
