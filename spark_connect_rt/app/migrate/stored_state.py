"""Judges what the three internal topics and the group hold: damage, offsets, what has FAILED, who is a member."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from spark_connect_rt.app.migrate.rules import JAVA, PYTHON, ConnectorVerdict, Fate, Given, MigrationFinding
from spark_connect_rt.app.offline.group_members import GroupMember
from spark_connect_rt.config.stored_config import NO_SETTINGS
from spark_connect_rt.config.worker_settings import DISTRIBUTED
from spark_connect_rt.errors import DataError
from spark_connect_rt.topics import offset_records, status_records
from spark_connect_rt.topics.status_records import ConnectorStatusKey, TaskStatusKey
from spark_connect_rt.topics.store_check import Severity, Stored, StoreFinding, fold_configs, live_records

_FAILED = "FAILED"


def topic_lines(
    stored: Stored, findings: Sequence[StoreFinding], workers: Sequence[GroupMember]
) -> list[MigrationFinding]:
    """Return what there is to say about topics and group; ``workers``: the running members."""
    state, _ = fold_configs(stored.configs)
    offsets = _offset_counts(stored)
    lines = [
        MigrationFinding("group members", str(len(workers)), Fate.SAME, _members(workers)),
        MigrationFinding(
            stored.names["configs"],
            f"{len(state.connectors())} connectors",
            Fate.SAME,
            "read and written in Java's bytes",
        ),
        MigrationFinding(
            stored.names["offsets"], f"{sum(offsets.values())} source partitions", Fate.SAME, _counted(offsets)
        ),
        MigrationFinding(stored.names["statuses"], f"{len(live_records(stored.statuses))} records", Fate.SAME, ""),
    ]
    for finding in findings:
        if finding.severity is not Severity.LEFTOVER:
            fate = Fate.CHANGE if finding.severity is Severity.DAMAGE else Fate.DIFFERS
            lines.append(
                MigrationFinding(f"{finding.topic}: {finding.code}", finding.subject, fate, finding.explanation)
            )
    return lines


def _members(workers: Sequence[GroupMember]) -> str:
    if not workers:
        return "no worker runs now"
    urls = ", ".join(worker.url for worker in workers)
    return f"{counted_workers(workers)}: {urls}"


def counted_workers(workers: Sequence[GroupMember]) -> str:
    """Return how many workers of which kind there are, such as ``2 Java workers and 1 Spark worker``."""
    names = {JAVA: "Java worker", PYTHON: "Spark worker", "": "worker of unknown kind"}
    counts = Counter(worker.runtime for worker in workers)
    words = [f"{counts[kind]} {_plural(name, counts[kind])}" for kind, name in names.items() if counts[kind]]
    return " and ".join(words)


def _plural(name: str, count: int) -> str:
    return name if count == 1 else name.replace("worker", "workers", 1)


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


# The steps of a rolling change from Java workers to Spark workers in one group, and of the way back.


DELAY = "scheduled.rebalance.max.delay.ms"
_DELAY_DEFAULT_MS: int = DISTRIBUTED[DELAY].default


def steps_there(settings: Mapping[str, str], file: str, workers: Sequence[GroupMember], must_change: bool) -> list[str]:
    """Return what to do, in order; ``workers``: the members now, none while no worker runs."""
    group, wait_s = settings.get("group.id") or "?", _wait_s(settings)
    members = counted_workers(workers) or "the Java workers"
    first = (
        [f"Change what is marked `change` above, then run connectrt migrate check {file} again"] if must_change else []
    )
    return [
        *first,
        f"Back up the state: connectrt store backup {file} before.jsonl (reads only; the groups of sinks are not "
        "in it).",
        f"On a machine with the same plugin.path: copy {file}, and change `listeners` and `rest.advertised.*`. "
        f"Keep group.id={group}, the three topics and everything else.",
        f"Start it: connectrt worker {file} (or ./spark-submit.sh). It joins the group of {members} "
        "and gets its share: see worker_id in GET /connectors/NAME/status.",
        "Compare for as long as you like: states, lag, GET /admin/story of the Spark worker. SIGTERM undoes it.",
        f"Stop one Java worker with SIGTERM. While a Java worker is in the group, its work may wait up to {wait_s} "
        f"s ({DELAY}; Java's rule also for workers that leave), then the others take it over.",
        "Start the next Spark worker and stop the next Java worker, until no Java worker is left. From then on, "
        "lost work is assigned immediately.",
        "Keep the Java workers' files and plug-ins until you are sure. The way back needs nothing else.",
    ]


def steps_back(settings: Mapping[str, str], connectors: Sequence[ConnectorVerdict]) -> list[str]:
    """Return the way back to Java workers."""
    only_here = sorted(
        connector.name for connector in connectors if connector.runtime == PYTHON and _python_only(connector)
    )
    warn = [f"Stop what Java cannot run (PUT /connectors/NAME/stop): {', '.join(only_here)}."] if only_here else []
    return [
        *warn,
        f"Start a Java worker with its old file (group.id={settings.get('group.id') or '?'}): it reads the same "
        "topics, joins, and gets its share. It ignores connectrt.* settings of connectors.",
        "Stop one Spark worker with SIGTERM. Its offsets are committed, and its work may wait up to "
        f"{_wait_s(settings)} s ({DELAY}). Continue until none is left.",
    ]


def _python_only(verdict: ConnectorVerdict) -> bool:
    named = [
        verdict.class_name,
        *(element.name for element in verdict.elements if element.runtime == PYTHON),
    ]
    return any(name.startswith("spark_connect_rt.") for name in named)


def _wait_s(settings: Mapping[str, str]) -> int:
    try:
        return int(settings.get(DELAY, _DELAY_DEFAULT_MS)) // 1000
    except ValueError:
        return _DELAY_DEFAULT_MS // 1000
