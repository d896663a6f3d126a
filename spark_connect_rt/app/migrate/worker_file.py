"""Judges each line of a Java worker's properties file.

Owns the settings that differ, and those that have no effect. A setting is what ``config.worker_config`` declares;
nothing is left out of the report, also what neither Java nor this product reads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from spark_connect_rt.app.migrate.rules import JAVA, ClassCatalog, Fate, MigrationFinding
from spark_connect_rt.config.config_def import ConfigDef, Type, parse_value
from spark_connect_rt.config.nearest_name import nearest_name

# Settings of Kafka Connect whose effect this version does not have, and that promise nothing by their defaults.
#
# If a promise (protection, delivery) would be broken in silence, the setting is refused where it is checked. The
# reference pages describe settings that change only comfort. A line goes when the feature comes.


WITHOUT_EFFECT = {
    "metrics.recording.level": "every metric is recorded; see /admin/metrics",
}


def in_this_version(name: str) -> str:
    """Return what the reference page adds about a setting; empty when it has its whole effect."""
    return WITHOUT_EFFECT.get(name, "")


CLIENTS = ("producer", "consumer", "admin")
_SHARED = ("ssl.", "sasl.", "security.")
_CONVERTERS = ("key.converter", "value.converter", "header.converter")
_JMX = "org.apache.kafka.common.metrics.JmxReporter"
_NO_CLASS = "is found neither here nor on plugin.path. Put its jar there, or remove the line"

_DIFFERS = {
    "offset.flush.interval.ms": "source offsets are written after each durable batch, sink offsets after each put "
    "(of Java tasks with a preCommit or flush: at this interval); this is the longest "
    "wait between two attempts",
    "plugin.path": "Java's folders and jars are used unchanged; wheels and Python packages in them are also found",
    "session.timeout.ms": "also applies to consumers of sinks, unless consumer.session.timeout.ms is set (Java: 45 s)",
    "scheduled.rebalance.max.delay.ms": "applies; without it, a group of only Spark workers assigns lost work "
    "immediately",
    "listeners": "a Spark worker on the same machine as a Java worker needs its own port",
    "offset.storage.topic": "an existing topic is not changed; a new one gets segments of 1 MiB, for short starts",
    "rest.advertised.host.name": "must be changed to the new machine's when the worker moves",
    "ssl.client.auth": "unchanged; a wrong certificate is reported at the start (exit code 14)",
}
_KEPT = frozenset({"spark.", "quickstart."})


@dataclass(frozen=True, slots=True)
class WorkerFile:
    """A file's settings and what judges them.

    ``client_problem``: (client or "", setting) -> why this client setting has no effect, None when it has.
    """

    settings: Mapping[str, str]
    definition: ConfigDef
    prefixes: Sequence[str]
    catalog: ClassCatalog
    client_problem: Callable[[str, str], str | None]
    shown: Callable[[str], str]  # a setting's value without secrets
    complaints: Mapping[str, Sequence[str]]  # refusals of the parser


def worker_lines(file: WorkerFile) -> list[MigrationFinding]:
    """Return a line for each setting of the file, in its order, and one for what it lacks."""
    lines = [_line(file, name) for name in file.settings]
    lines += _unsecured_clients(file.settings)
    missing = [name for name in file.complaints if name not in file.settings]
    return lines + [MigrationFinding(name, "", Fate.CHANGE, "; ".join(file.complaints[name])) for name in missing]


def _unsecured_clients(settings: Mapping[str, str]) -> list[MigrationFinding]:
    """Return a line for each client of tasks that has no security settings although another one has.

    As in Java, these clients do not see the worker's own settings, so such a file fails only when a task starts.
    """
    secured = [role for role in ("producer", "consumer") if f"{role}.security.protocol" in settings]
    if not secured and "security.protocol" not in settings:
        return []
    why = "is not set: as in Java, the {}s of tasks do not use the worker's own, and connect without security"
    missing = [role for role in ("producer", "consumer") if role not in secured]
    return [MigrationFinding(f"{role}.security.protocol", "", Fate.DIFFERS, why.format(role)) for role in missing]


def _line(file: WorkerFile, name: str) -> MigrationFinding:
    fate, why = _fate(file, name)
    return MigrationFinding(name, file.shown(name), fate, why)


def _fate(file: WorkerFile, name: str) -> tuple[Fate, str]:
    if name in file.complaints:
        return Fate.CHANGE, "; ".join(file.complaints[name])
    for judge in (_class_fate, _list_fate, _client_fate):
        found = judge(file, name)
        if found is not None:
            return found
    if name in WITHOUT_EFFECT:
        return Fate.IGNORED, WITHOUT_EFFECT[name]
    if name in _DIFFERS:
        return Fate.DIFFERS, _DIFFERS[name]
    if name in file.definition.names() or name.startswith((*file.prefixes, *_KEPT)):
        return Fate.SAME, ""
    nearest = nearest_name(name, file.definition.names())
    hint = f"; did you mean {nearest}?" if nearest else ""
    return Fate.IGNORED, (
        f"not a setting of Kafka Connect 4.1 or of this product, so Java workers ignore it, too{hint}"
    )


def _class_fate(file: WorkerFile, name: str) -> tuple[Fate, str] | None:
    """Judge settings that name one class."""
    if not (name in _CONVERTERS or (name.startswith("config.providers.") and name.endswith(".class"))):
        return None
    given = file.settings[name].strip()
    version = file.settings.get(f"{name}.plugin.version") if name in _CONVERTERS else None
    found = file.catalog.find(given, version)
    if found is None:
        return Fate.CHANGE, f"class {given} {_NO_CLASS}"
    if found.problem:
        return Fate.CHANGE, found.problem
    if found.runtime == JAVA:
        return Fate.SAME, f"the Java class of {found.location}, in the Java host"
    return Fate.SAME, "runs in Python, tested against Java's" if found.twin else "a Python class"


def _list_fate(file: WorkerFile, name: str) -> tuple[Fate, str] | None:
    """Judge settings that name several classes or a policy."""
    classes = parse_value(Type.LIST, file.settings[name] or "") if name in _LISTS else []
    if name == "metric.reporters":
        others = [cls for cls in classes if cls != _JMX]
        why = "Java's reporters do not run here. Metrics are at GET /admin/metrics"
        return (Fate.IGNORED, f"{why}; not loaded: {', '.join(others)}") if others else (Fate.DIFFERS, why)
    if name == "rest.extension.classes":
        return _extension_fate(file, classes)
    return None


_LISTS = ("metric.reporters", "rest.extension.classes")


def _extension_fate(file: WorkerFile, classes: Sequence[str]) -> tuple[Fate, str]:
    found = {cls: file.catalog.find(cls) for cls in classes}
    lost = [cls for cls, plugin in found.items() if plugin is None or plugin.runtime == JAVA]
    if lost:
        why = "REST extensions in Java do not run here. Remove it, or write one in Python"
        return Fate.CHANGE, f"{', '.join(lost)}: {why}"
    return Fate.SAME, ""


def _client_fate(file: WorkerFile, name: str) -> tuple[Fate, str] | None:
    """Judge settings of the Kafka clients: with a client's prefix, or shared by all of them."""
    client, dot, rest = name.partition(".")
    if client in CLIENTS and dot:
        problem = file.client_problem(client, rest)
    elif name.startswith(_SHARED) and name not in file.definition.names():
        problem = file.client_problem("", name)
    else:
        return None
    return (Fate.IGNORED, problem) if problem else (Fate.SAME, "")
