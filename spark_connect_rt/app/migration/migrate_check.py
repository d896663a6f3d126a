"""Reads what ``connectrt migrate check`` judges, prints the report. Joins no group, writes nothing, starts no JVM."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from spark_connect_rt.app.exit_codes import EXIT_MUST_CHANGE
from spark_connect_rt.app.migration.migrate_words import document, text
from spark_connect_rt.app.migration.plugin_catalog import MigrationCatalog
from spark_connect_rt.app.migration.plugin_jars import PluginJars
from spark_connect_rt.app.stores.internal_topics import InternalTopics
from spark_connect_rt.app.worker_plugins import distributed_config, plugins_of
from spark_connect_rt.config.worker.distributed_config import DISTRIBUTED, PASSED_ON
from spark_connect_rt.config.worker.own_settings import PluginSettings
from spark_connect_rt.errors import BadConfigError, ConnectError
from spark_connect_rt.kafka.client_config import ClientRole, client_config
from spark_connect_rt.planning.migration.connectors import Given, connector_verdict, shown
from spark_connect_rt.planning.migration.findings import Fate, Line, MigrationReport
from spark_connect_rt.planning.migration.steps import steps_back, steps_there
from spark_connect_rt.planning.migration.stored_state import given_connectors, topic_lines
from spark_connect_rt.planning.migration.worker_file import WorkerFile, worker_lines
from spark_connect_rt.planning.store_check import record_findings
from spark_connect_rt.plugins.discovery import ENVIRONMENT, BrokenPlugin
from spark_connect_rt.plugins.java_plugins import NO_SERVICES

_NO_JVM = {"plugin.discovery": "service_load"}  # PluginJars knows the classes that no service file names
_JAVA_CLASSES = ("interceptor.classes", "partitioner.class", "metric.reporters", "ssl.engine.factory.class")


@dataclass(frozen=True, slots=True)
class State:
    """What topics and group hold."""

    lines: list[Line]
    connectors: list[Given]
    workers: list[str]


def migrate_check(settings: Mapping[str, str], file: str, as_json: bool) -> int:
    """Print the report; return 0, or EXIT_MUST_CHANGE when something must be changed before the move."""
    report = migration_report(settings, file)
    words = json.dumps(document(report), indent=1, ensure_ascii=False) if as_json else text(report)
    sys.stdout.write(f"{words}\n")
    return EXIT_MUST_CHANGE if report.must_change() else 0


def migration_report(settings: Mapping[str, str], file: str) -> MigrationReport:
    """Return everything there is to say about a Java worker's file. What cannot be read is a line of it."""
    complaints = _complaints(settings)
    accepted = {name: value for name, value in settings.items() if name not in complaints}
    jars = PluginJars(PluginSettings.of(accepted).folders)
    plugins = plugins_of({**accepted, **_NO_JVM})
    catalog = MigrationCatalog(plugins, jars)
    given = WorkerFile(settings, DISTRIBUTED, PASSED_ON, catalog, client_problem, _shown(settings), complaints)
    state = _state(settings, complaints)
    worker = [*worker_lines(given), *map(_missing, jars.missing()), *_broken_lines(plugins.broken(), jars.missing())]
    verdicts = [connector_verdict(one, catalog, client_problem) for one in state.connectors]
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


def _missing(place: str) -> Line:
    return Line("plugin.path", place, Fate.CHANGE, "there is no such folder or jar on this machine")


def _broken_lines(broken: Sequence[BrokenPlugin], missing: Sequence[str]) -> Iterator[Line]:
    """Yield plug-ins that no worker here could use; a connector that names one has a line of its own."""
    for one in broken:
        if one.location not in missing and one.error != NO_SERVICES and one.location != ENVIRONMENT:
            yield Line("plugin.path", one.location, Fate.IGNORED, f"{one.name}: {one.error}")


def _state(settings: Mapping[str, str], complaints: Mapping[str, list[str]]) -> State:
    if complaints:
        return _unread("not read: the file is refused")
    try:
        with InternalTopics(settings) as topics:
            stored = topics.stored()
            workers = topics.worker_urls()
            findings = [*topics.shape_findings(), *record_findings(stored)]
    except ConnectError as error:
        return _unread(f"not read: {error}")
    return State(topic_lines(stored, findings, workers), given_connectors(stored, settings), workers)


def _unread(why: str) -> State:
    return State([Line("internal topics", "", Fate.CHANGE, why)], [], [])


def client_problem(client: str, name: str) -> str | None:
    """Return why a setting of a Kafka client has no effect, None when it has; ``client``: empty for all three."""
    role = ClientRole(client) if client else ClientRole.CONSUMER
    if name.endswith(_JAVA_CLASSES):
        return "the clients here load no Java classes"
    try:
        return client_config({name: "0"}, role).unmapped.get(name)
    except ConnectError:
        return None  # known, though not with this value
