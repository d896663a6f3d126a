"""The initial content of the stand-in: a small group that shows one of everything, hostile text included."""

from __future__ import annotations

from typing import Any

NOW_MS = 1_795_420_800_000
NASTY = "<script>alert('x')</script> & \"quoted\" \u202e\x07 日本語"
WORKER, OTHER, JAVA = "one:8083", "two:8083", "java:8083"
KEY = {"name": "topic", "type": "STRING", "required": True, "default_value": None, "importance": "HIGH"}


def row(name: str, kind: str = "source", state: str = "RUNNING", **parts: Any) -> dict[str, Any]:
    """Return a ROW of the overview."""
    return {
        "name": name, "type": kind, "class": f"FileStream{kind.title()}", "state": state, "aggregate": state,
        "worker_id": WORKER,
        "tasks": {state: 1}, "records_per_second": 10.5, "lag": None if kind == "source" else 7, "errors": 0,
        "last_error": None, "last_error_at_ms": None, "restart": None, "stalled": None, "abnormal": False, "why": "",
    } | parts  # fmt: skip


def connectors() -> dict[str, dict[str, Any]]:
    """Return name -> the stand-in's data of a connector."""
    broken = row(
        "orders-sink", "sink", aggregate="DEGRADED", tasks={"RUNNING": 1, "FAILED": 1}, last_error=NASTY,
        last_error_at_ms=NOW_MS - 60_000, abnormal=True, why="1 task FAILED", errors=3,
    )  # fmt: skip
    rows = [row("orders"), broken, row("resting", state="PAUSED"), row("halted", state="STOPPED")]
    return {entry["name"]: _connector(entry) for entry in rows}


def _connector(entry: dict[str, Any]) -> dict[str, Any]:
    states = [state for state, count in entry["tasks"].items() for _ in range(count)]
    tasks = [
        {
            "id": number, "state": state, "worker_id": WORKER, "executor": "driver",
            "trace": f"ConnectError: {NASTY}\n\tat task" if state == "FAILED" else None,
            "records": 100, "records_per_second": 10.5, "lag": entry["lag"], "errors": 0, "cpu_seconds": 1.5,
            "restart": None, "stalled": None,
        }
        for number, state in enumerate(states)
    ]  # fmt: skip
    config = {"name": entry["name"], "connector.class": entry["class"], "topic": "lines", "db.password": "hunter-2"}
    return {
        "row": entry,
        "config": config,
        "tasks": tasks,
        "offsets": [{"partition": {"filename": "in.txt"}, "offset": {"position": 42}}],
        "topics": ["lines"],
        "tables": [_table("shop.orders"), _table(NASTY)] if entry["name"] == "orders-sink" else [],
    }


def _table(name: str) -> dict[str, Any]:
    return {
        "table": name, "commits": 12, "rows": 40_321, "deleted_rows": 7, "bytes": 3 << 20, "files": 14,
        "waiting_rows": 250, "lost_races": 1, "fenced_partitions": 0, "commit_ms": 81.5, "lag_s": 12.4,
    }  # fmt: skip


def group() -> dict[str, Any]:
    """Return the answer of ``GET /admin/group``."""
    first = {
        "worker_id": WORKER, "url": "http://one:8083/", "leader": True, "this": True, "runtime": "spark-connect-rt",
        "version": "0.1.0", "reachable": True, "health": "healthy", "connectors": ["orders", "orders-sink"],
        "tasks": ["orders-0", "orders-sink-0"], "records_per_second": 21.0, "memory_bytes": 512 * 1024 * 1024,
        "started_ms": NOW_MS - 3_600_000, "open_files": 120, "open_files_max": 20_000,
    }  # fmt: skip
    unknown = {"records_per_second": None, "memory_bytes": None, "started_ms": None, "health": None, "version": None}
    other = first | {"worker_id": OTHER, "url": "http://two:8083/", "leader": False, "this": False}
    other |= {"connectors": ["resting"], "tasks": ["orders-sink-1"], "reachable": False} | unknown
    java = other | {"worker_id": JAVA, "url": "http://java:8083/", "runtime": "java", "connectors": [], "tasks": []}
    return {
        "group_id": "connect-cluster", "kafka_cluster_id": "c1", "protocol": "sessioned", "leader": WORKER,
        "generation": 7, "workers": [first, other, java],
    }  # fmt: skip


def events() -> list[dict[str, Any]]:
    """Return the group's events, newest first."""
    kinds = [
        ("failure", "orders-sink", 1, f"task 1 FAILED: {NASTY}", {}),
        ("rebalance", None, None, f"two:8083 left: 1 task moved {NASTY}", {"seconds": 1.5, "why": "session timed out"}),
        ("restart", "orders-sink", None, "restarted by the policy", {}),
        ("state", "resting", None, "paused by ann@10.0.0.1", {"who": "ann@10.0.0.1"}),
        ("worker", None, None, "worker started", {}),
        ("rebalance", None, None, "two:8083 joined: 2 tasks moved", {"seconds": 0.5, "moved": ["orders-sink-1"]}),
    ]
    return [
        {
            "id": str(len(kinds) - number), "at_ms": NOW_MS - number * 60_000, "kind": kind, "worker_id": WORKER,
            "connector": connector, "task": task, "summary": summary, "details": details,
        }
        for number, (kind, connector, task, summary, details) in enumerate(kinds)
    ]  # fmt: skip


def changes() -> list[dict[str, Any]]:
    """Return the history, newest first."""

    def change(number: int, kind: str, action: str, before: Any, after: Any, name: str = "orders") -> dict[str, Any]:
        return {
            "number": number, "at_ms": NOW_MS - (10 - number) * 60_000, "connector": name, "kind": kind,
            "action": action, "who": "ann@10.0.0.1", "worker_id": WORKER, "before": before, "after": after, "note": "",
        }  # fmt: skip

    first = {"name": "orders", "connector.class": "FileStreamSource", "topic": "old", "db.password": "[hidden]"}
    partition = {"filename": "in.txt"}
    return [
        change(5, "logger", "set", {"level": "INFO"}, {"level": "DEBUG"}, ""),
        change(4, "state", "pause", {"state": "RUNNING"}, {"state": "PAUSED"}),
        change(
            3, "offsets", "alter",
            {"offsets": [{"partition": partition, "offset": {"position": 1}}]},
            {"offsets": [{"partition": partition, "offset": {"position": 42}}]},
        ),
        change(2, "config", "update", first, first | {"topic": "lines", "batch.size": "10"}),
        change(1, "config", "create", None, first),
    ]  # fmt: skip


def letters() -> list[dict[str, Any]]:
    """Return dead letters, oldest first: JSON, text, bytes, one replayed, one hostile."""
    values: list[Any] = [
        {"json": {"id": 1, "amount": "ten"}},
        {"text": NASTY},
        {"base64": "3q2+7w==", "error": "unknown magic byte 222"},
        {"json": [1, 2, 3]},
        None,
    ]
    return [
        {
            "topic": "orders-dlq", "partition": 0, "offset": number, "at_ms": NOW_MS - number * 1000,
            "origin": {"topic": "lines", "partition": 0, "offset": 100 + number}, "stage": "VALUE_CONVERTER",
            "class": "org.apache.kafka.connect.json.JsonConverter",
            "exception": "org.apache.kafka.connect.errors.DataException", "message": NASTY,
            "stacktrace": "DataException: x\n\tat y", "connector_name": "orders-sink", "task": 0,
            "key": {"text": f"k{number}"}, "value": value, "headers": [{"name": "h", "value": {"text": NASTY}}],
            "replayed": {"id": "r0", "at_ms": NOW_MS} if number == 3 else None,
        }
        for number, value in enumerate(values)
    ]  # fmt: skip


def plugins() -> dict[str, Any]:
    """Return the answer of ``GET /admin/plugins``."""

    def plugin(name: str, kind: str, description: str = "") -> dict[str, str]:
        found = {"class": name, "type": kind, "version": "4.1.1", "location": "classpath"}
        return found | {"description": description}

    return {
        "plugins": [
            plugin("org.apache.kafka.connect.file.FileStreamSourceConnector", "source", f"Reads lines: {NASTY}"),
            plugin("org.apache.kafka.connect.file.FileStreamSinkConnector", "sink", "Writes lines."),
            plugin("org.apache.kafka.connect.json.JsonConverter", "converter"),
        ],
        "broken": [{"name": "broken_package", "location": "/plugins/broken", "error": f"ImportError: {NASTY}"}],
        "installed": [
            {
                "name": "orders", "version": "1.2", "source": "g:orders:1.2", "kind": "java", "sha512": "ab" * 64,
                "installed_by": "127.0.0.1", "installed_at_ms": NOW_MS, "left_out": [], "plugins": ["x.Orders"],
                "recorded": True,
                "workers": {WORKER: {"state": "installed", "reason": ""}, OTHER: {"state": "failed", "reason": NASTY}},
            }
        ],
        "problem": "",
    }  # fmt: skip


def form(config: dict[str, Any]) -> dict[str, Any]:
    """Return the answer of the management API's validation: Java's, and each setting's choices."""
    answer = validation(config)
    choices = {"on.error": ["fail", "skip"]}
    return answer | {
        "configs": [it | {"choices": choices.get(it["definition"]["name"], [])} for it in answer["configs"]]
    }


def validation(config: dict[str, Any]) -> dict[str, Any]:
    """Return the answer of a validation of a small connector."""

    def setting(name: str, kind: str, **parts: Any) -> dict[str, Any]:
        found: dict[str, Any] = {
            "name": name,
            "value": config.get(name),
            "recommended_values": [],
            "errors": [],
            "visible": True,
        }
        found |= {key: parts.pop(key) for key in ("recommended_values", "errors") if key in parts}
        definition = KEY | {"name": name, "type": kind, "documentation": f"About {name}. {NASTY}", "group": None}
        definition |= {"width": "MEDIUM", "display_name": name, "dependents": [], "order": -1, **parts}
        return {"definition": definition, "value": found}

    missing = 'Missing required configuration "topic" which has no default value.'
    nameless = missing.replace("topic", "name")
    number = str(config.get("tasks.max") or "1")
    configs = [
        setting("name", "STRING", group="Common", order=1, errors=[] if config.get("name") else [nameless]),
        setting("connector.class", "STRING", group="Common", order=2),
        setting("tasks.max", "INT", group="Common", order=3, required=False, default_value="1",
            errors=[] if number.isdigit() else [f"Invalid value {number} for configuration tasks.max"]),
        setting("transforms", "LIST", group="Transforms", required=False, importance="LOW"),
        setting("topic", "STRING", errors=[] if config.get("topic") else [missing]),
        setting("db.password", "PASSWORD", required=False),
        setting("mode", "STRING", required=False, default_value="row", recommended_values=["row", "bulk"]),
        setting("trim", "BOOLEAN", required=False, default_value="false", importance="LOW"),
        setting("on.error", "STRING", required=False, default_value="fail", importance="LOW"),
    ]  # fmt: skip
    count = sum(len(it["value"]["errors"]) for it in configs)
    return {
        "name": config.get("connector.class", ""),
        "error_count": count,
        "groups": ["Common", "Transforms"],
        "configs": configs,
    }
