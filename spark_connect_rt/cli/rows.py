"""Connectors and tasks as rows, from the one request that every worker serves; enriched where ours know more. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from spark_connect_rt.topics.aggregate_state import aggregate_state

Row = dict[str, Any]


def connector_rows(expanded: Mapping[str, Any]) -> list[Row]:
    """Return a row for each connector of ``GET /connectors?expand=status&expand=info``, by name.

    A connector that was created a moment ago may lack either part.
    """
    return [connector_row(name, entry.get("info"), entry.get("status")) for name, entry in sorted(expanded.items())]


def connector_row(name: str, info: Mapping[str, Any] | None, status: Mapping[str, Any] | None) -> Row:
    """Return one row: name, type, class, state, aggregate, worker_id, tasks, config, trace, restart.

    ``state`` is what Java says, of the connector alone; ``aggregate`` is the state of both (``AGGREGATES``).
    """
    config = dict((info or {}).get("config", {}))
    connector = (status or {}).get("connector", {})
    kind = (info or {}).get("type") or (status or {}).get("type") or ""
    state, tasks = connector.get("state", "UNASSIGNED"), list((status or {}).get("tasks", ()))
    row = {
        "name": name,
        "type": kind,
        "class": config.get("connector.class", ""),
        "state": state,
        "aggregate": aggregate_state(state, Counter(task["state"] for task in tasks)),
        "worker_id": connector.get("worker_id", ""),
        "tasks": tasks,
        "config": config,
    }
    return row | {key: connector[key] for key in ("trace", "restart") if connector.get(key)}


def enriched(rows: Iterable[Row], overview: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Return the rows with what the overview knows beside: rate, lag, errors, last error, why abnormal."""
    known = {entry["name"]: entry for entry in overview}
    more = ("records_per_second", "lag", "errors", "last_error", "last_error_at_ms", "stalled", "abnormal", "why")
    return [row | {key: known.get(row["name"], {}).get(key) for key in more} for row in rows]


def running_tasks(row: Mapping[str, Any]) -> str:
    """Return ``running/all``, and how many have failed."""
    states = Counter(task["state"] for task in row["tasks"])
    failed = f" ({states['FAILED']} failed)" if states["FAILED"] else ""
    return f"{states['RUNNING']}/{len(row['tasks'])}{failed}"


def why(row: Mapping[str, Any]) -> str | None:
    """Return in one line what is wrong with a connector: the worker's words, else the first error."""
    if row.get("why"):
        return str(row["why"])
    return next((error_line(task["trace"]) for task in (row, *row["tasks"]) if task.get("trace")), None)


def error_line(trace: str | None) -> str | None:
    """Return the line of a trace, Java's or Python's, that says what went wrong."""
    if not trace:
        return None
    from spark_connect_rt.operations.overview.verdict import last_line

    return last_line(trace) or None


def task_rows(rows: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Return a row for each task: name (``connector/0``), connector, task, and its state's fields."""
    return [
        {
            "name": f"{row['name']}/{task['id']}",
            "connector": row["name"],
            "task": task["id"],
            "type": row["type"],
            **task,
        }
        for row in rows
        for task in row["tasks"]
    ]


def what_changed(change: Mapping[str, Any]) -> str | None:
    """Return in one line what a change of the history did: settings, partitions, a state, a level; never a value."""
    from spark_connect_rt.cli.differences import config_differences, offset_differences

    before, after = change.get("before") or {}, change.get("after") or {}
    if change["kind"] == "config":
        settings = {difference.name for difference in config_differences(before, after)} | set(
            change.get("changed_unseen") or ()
        )
        return ", ".join(sorted(settings)) if before and after else f"{len(settings)} settings"
    if change["kind"] == "offsets":
        moved = offset_differences(before.get("offsets") or (), after.get("offsets") or ())
        return f"{len(moved)} partition{'' if len(moved) == 1 else 's'}"
    field = "level" if change["kind"] == "logger" else "state"
    what = f"{after['logger']} " if after.get("logger") else ""
    return what + " -> ".join(str(side[field]) for side in (before, after) if side.get(field))


def workers_by_states(rows: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Return the workers that the states name: all that a group of Java workers says of itself."""
    workers: dict[str, Row] = {}
    for row in rows:
        if row["worker_id"] and row["state"] != "UNASSIGNED":
            _worker(workers, row["worker_id"])["connectors"].append(row["name"])
        for task in row["tasks"]:
            if task["worker_id"] and task["state"] != "UNASSIGNED":
                _worker(workers, task["worker_id"])["tasks"].append(f"{row['name']}-{task['id']}")
    return [workers[key] for key in sorted(workers)]


def _worker(workers: dict[str, Row], worker_id: str) -> Row:
    return workers.setdefault(worker_id, {"worker_id": worker_id, "connectors": [], "tasks": []})
