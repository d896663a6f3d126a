"""Reads what ``connectrt migrate check`` judges, prints the report. Joins no group, writes nothing, starts no JVM."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from spark_connect_rt.app.migrate.plugin_catalog import MigrationCatalog, PluginJars
from spark_connect_rt.app.migrate.rules import (
    ConnectorVerdict,
    Fate,
    Given,
    MigrationFinding,
    MigrationReport,
    connector_verdict,
    shown,
)
from spark_connect_rt.app.migrate.stored_state import given_connectors, steps_back, steps_there, topic_lines
from spark_connect_rt.app.migrate.worker_file import WorkerFile, worker_lines
from spark_connect_rt.app.offline.group_members import GroupMember
from spark_connect_rt.app.offline.internal_topics import InternalTopics
from spark_connect_rt.base.exit_codes import EXIT_MUST_CHANGE
from spark_connect_rt.config.client_settings import client_config_def
from spark_connect_rt.config.config_def import prefixed
from spark_connect_rt.config.connectrt_config import PluginSettings
from spark_connect_rt.config.worker_settings import DISTRIBUTED, PASSED_ON
from spark_connect_rt.engine.process_plugins import distributed_config, plugins_of
from spark_connect_rt.errors import BadConfigError, ConnectError
from spark_connect_rt.kafka.client_config import ClientRole, client_config
from spark_connect_rt.plugins.discovery import ENVIRONMENT, BrokenPlugin
from spark_connect_rt.plugins.java_plugins import NO_SERVICES
from spark_connect_rt.topics.store_check import record_findings

# A migration report as text and as JSON.


_WHERE = {"python": "in Python", "java": "in the Java host", "": "nowhere"}


def text(report: MigrationReport) -> str:
    """Return the report for people: a line for each setting, then connectors, then the steps."""
    parts = [
        "WORKER FILE",
        *_lines(report.worker),
        "",
        "GROUP AND TOPICS (read only)",
        *_lines(report.topics),
        "",
        f"CONNECTORS: {_summary(report.connectors)}",
        *(word for connector in report.connectors for word in _connector(connector)),
        "",
        "STEPS",
        *_numbered(report.there),
        "",
        "AND BACK",
        *_numbered(report.back),
        "",
        _verdict(report),
    ]
    return "\n".join(parts)


def document(report: MigrationReport) -> dict[str, Any]:
    """Return the report for programs; fates and names of fields are stable."""
    whole = asdict(report) | {"must_change": report.must_change(), "counts": _counts(report)}
    return {name: _plain(part) for name, part in whole.items()}


def _plain(part: Any) -> Any:
    if isinstance(part, Fate):
        return part.value
    if isinstance(part, dict):
        return {name: _plain(value) for name, value in part.items()}
    return [_plain(value) for value in part] if isinstance(part, list | tuple) else part


def _lines(lines: Sequence[MigrationFinding], indent: str = "  ") -> Iterator[str]:
    width = min(max((len(_given(line)) for line in lines), default=0), 72)
    for line in lines:
        yield f"{indent}{line.fate.value:8}{_given(line):{width}}  {line.why}".rstrip()


def _given(line: MigrationFinding) -> str:
    return f"{line.name}={line.value}" if line.value else line.name


def _connector(verdict: ConnectorVerdict) -> Iterator[str]:
    mixed = "; its chain is mixed" if verdict.kind == "mixed" else ""
    yield (
        f"  {verdict.name}: {verdict.class_name} runs {_WHERE[verdict.runtime]}{mixed}; {verdict.state}, "
        f"{verdict.tasks} tasks"
    )
    if verdict.kind == "mixed":
        for element in verdict.elements:
            yield f"    {'':8}{element.setting}={element.name}: {_WHERE[element.runtime]}"
    yield from _lines(verdict.lines, "    ")


def _summary(connectors: Sequence[ConnectorVerdict]) -> str:
    if not connectors:
        return "none"
    kinds = Counter(_WHERE[connector.runtime] for connector in connectors)
    mixed = sum(connector.kind == "mixed" for connector in connectors)
    named = ", ".join(f"{count} {where}" for where, count in sorted(kinds.items()))
    return f"{named}; {mixed} with a mixed chain (records cross between JVM and Python once)" if mixed else named


def _numbered(steps: Sequence[str]) -> Iterator[str]:
    for number, step in enumerate(steps, start=1):
        yield f"  {number}. {step}"


def _counts(report: MigrationReport) -> dict[str, int]:
    found = Counter(line.fate.value for line in report.lines())
    return {fate.value: found[fate.value] for fate in Fate}


def _verdict(report: MigrationReport) -> str:
    counts = ", ".join(f"{count} {name}" for name, count in _counts(report).items())
    return f"{counts}. " + ("Something must be changed first." if report.must_change() else "Nothing must be changed.")


_NO_JVM = {"plugin.discovery": "service_load"}  # PluginJars knows the classes that no service file names
_JAVA_CLASSES = ("interceptor.classes", "partitioner.class", "metric.reporters", "ssl.engine.factory.class")


@dataclass(frozen=True, slots=True)
class MigrationState:
    """The contents of the topics and the group."""

    lines: list[MigrationFinding]
    connectors: list[Given]
    workers: list[GroupMember]


def migrate_check(settings: Mapping[str, str], file: str, as_json: bool) -> int:
    """Print the report; return 0, or EXIT_MUST_CHANGE when something must be changed before the move."""
    report = migration_report(settings, file)
    words = json.dumps(document(report), indent=1, ensure_ascii=False) if as_json else text(report)
    sys.stdout.write(f"{words}\n")
    return EXIT_MUST_CHANGE if report.must_change() else 0


def migration_report(settings: Mapping[str, str], file: str) -> MigrationReport:
    """Return a report on a Java worker's file, with a line for everything that cannot be read.

    Raises BadConfigError: the file is of another kind.
    """
    refuse_other_files(settings)
    complaints = {**client_complaints(settings), **_complaints(settings)}
    accepted = {name: value for name, value in settings.items() if name not in complaints}
    jars = PluginJars(PluginSettings.of(accepted).folders)
    plugins = plugins_of({**accepted, **_NO_JVM})
    catalog = MigrationCatalog(plugins, jars)
    given = WorkerFile(settings, DISTRIBUTED, PASSED_ON, catalog, client_problem, _shown(settings), complaints)
    state = _state(settings, complaints)
    worker = [*worker_lines(given), *map(_missing, jars.missing()), *_broken_lines(plugins.broken(), jars.missing())]
    verdicts = [connector_verdict(connector, catalog, client_problem) for connector in state.connectors]
    draft = MigrationReport(worker, state.lines, verdicts, (), steps_back(settings, verdicts))
    there = steps_there(settings, file, state.workers, draft.must_change())
    return MigrationReport(worker, state.lines, verdicts, there, draft.back)


def _complaints(settings: Mapping[str, str]) -> Mapping[str, list[str]]:
    try:
        distributed_config(settings)
    except BadConfigError as error:
        return {name: list(reasons) for name, reasons in error.problems.items()}
    return {}


def _shown(settings: Mapping[str, str]) -> Callable[[str], str]:
    return lambda name: shown(name, settings[name])


def _missing(place: str) -> MigrationFinding:
    return MigrationFinding("plugin.path", place, Fate.CHANGE, "the folder or jar does not exist on this machine")


def _broken_lines(broken: Sequence[BrokenPlugin], missing: Sequence[str]) -> Iterator[MigrationFinding]:
    """Yield plug-ins that no worker here could use; a connector that names one has its own line."""
    for broken_plugin in broken:
        if (
            broken_plugin.location not in missing
            and broken_plugin.error != NO_SERVICES
            and broken_plugin.location != ENVIRONMENT
        ):
            yield MigrationFinding(
                "plugin.path", broken_plugin.location, Fate.IGNORED, f"{broken_plugin.name}: {broken_plugin.error}"
            )


def _state(settings: Mapping[str, str], complaints: Mapping[str, list[str]]) -> MigrationState:
    if complaints:
        return _unread("not read, because the file is invalid")
    try:
        with InternalTopics(settings) as topics:
            stored = topics.stored()
            workers = topics.members()
            findings = [*topics.shape_findings(), *record_findings(stored)]
    except ConnectError as error:
        return _unread(f"not read: {error}")
    return MigrationState(topic_lines(stored, findings, workers), given_connectors(stored, settings), workers)


def _unread(why: str) -> MigrationState:
    return MigrationState([MigrationFinding("internal topics", "", Fate.CHANGE, why)], [], [])


def refuse_other_files(settings: Mapping[str, str]) -> None:
    """Raise BadConfigError for a file of another program than a distributed worker, and name the command for it."""
    if "clusters" in settings:
        why = "this is a file of MirrorMaker, not of a Connect worker. Run it with `connectrt mirror run FILE`"
        raise BadConfigError({"clusters": [why]})
    if "connector.class" in settings:
        why = "this is a connector's file, not a worker's. Check it with `connectrt check -f FILE`"
        raise BadConfigError({"connector.class": [why]})
    if "offset.storage.file.filename" in settings and "group.id" not in settings:
        why = "this is a file of a standalone worker, which needs no migration. Run it with `connectrt standalone FILE`"
        raise BadConfigError({"offset.storage.file.filename": [why]})


def client_complaints(settings: Mapping[str, str]) -> dict[str, list[str]]:
    """Return what the Kafka clients here refuse of a worker's settings: setting as the file has it -> why.

    The worker's own clients and its tasks' producers, consumers and admin clients are judged with the values that each
    of them would get. Settings that refer to a config provider are left out, because their values are not known here.
    """
    known = {name: value for name, value in settings.items() if "${" not in (value or "")}
    servers = {name: value for name, value in known.items() if name == "bootstrap.servers"}
    own = servers | {name: value for name, value in known.items() if name.startswith(("ssl.", "sasl.", "security."))}
    found = _refused(own, ClientRole.ADMIN, "", known)
    for role in ClientRole:
        prefix = f"{role.value}."
        found |= _refused(servers | prefixed(known, prefix), role, prefix, known)
    return found


def _refused(
    properties: Mapping[str, str], role: ClientRole, prefix: str, settings: Mapping[str, str]
) -> dict[str, list[str]]:
    try:
        client_config(properties, role)
    except BadConfigError as error:
        of_file = {name: f"{prefix}{name}" if f"{prefix}{name}" in settings else name for name in error.problems}
        return {of_file[name]: list(why) for name, why in error.problems.items()}
    except ConnectError as error:
        return {f"{prefix}security.protocol": [str(error)]}
    return {}


def client_problem(client: str, name: str) -> str | None:
    """Return why a setting of a Kafka client has no effect, None when it has; ``client``: empty for all three."""
    role = ClientRole(client) if client else ClientRole.CONSUMER
    others = [
        client_role
        for client_role in ClientRole
        if client_role is not role and name in client_config_def(client_role.value)
    ]
    if client and others and name not in client_config_def(client):
        return f"a setting of the {others[0].value}, which the {client} ignores, as in Java"
    if name.endswith(_JAVA_CLASSES):
        return "the Kafka clients of this worker load no Java classes"
    try:
        return client_config({name: "0"}, role).unmapped.get(name)
    except ConnectError:
        return None  # known, though not with this value
