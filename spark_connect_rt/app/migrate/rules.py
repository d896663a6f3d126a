"""Judges connectors: where each would run, with which chain, and what of its settings would not be honoured.

The rule of where: the Python one where a name exists twice, unless the configuration says ``connectrt.runtime=java``
or asks for a version that only the jar has. A chain in Java stays in the JVM; Apache's own classes count as Java.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Protocol

from spark_connect_rt.config.config_def import Type, parse_value
from spark_connect_rt.plugins.counterparts import CONFLUENT_S3_SINK, OFFICIAL_ICEBERG_SINK, counterpart_of

if TYPE_CHECKING:
    from spark_connect_rt.connectors.lakehouse.official_sink import TakenSetting

# The terms of a migration report: verdicts, lines, connectors.


JAVA, PYTHON = "java", "python"


class Fate(Enum):
    """The outcome for one line, from nothing at all to something that a person has to do first."""

    SAME = "same"
    DIFFERS = "differs"  # it works, not exactly as in Java: the sentence says how
    IGNORED = "ignored"  # it has no effect here
    CHANGE = "change"  # must be changed before the move


@dataclass(frozen=True, slots=True)
class MigrationFinding:
    """One setting or fact and its verdict; ``value`` is what may be shown of it."""

    name: str
    value: str
    fate: Fate
    why: str = ""


@dataclass(frozen=True, slots=True)
class PlannedPlugin:
    """A plug-in as this worker would find it."""

    name: str  # the class, as REST shows it
    runtime: str  # "python" or "java"
    version: str | None = None
    location: str = ""
    twin: bool = False  # bundled in Python under a Java class's name
    problem: str = ""  # why it cannot be used; empty: it can be


class ClassCatalog(Protocol):
    """Where classes are looked up."""

    def find(self, name: str, version: str | None = None, runtime: str = "auto") -> PlannedPlugin | None:
        """Return the plug-in of that class or alias; ``runtime``: java or python, only that one; None: no such."""

    def unread(self, name: str, config: Sequence[str]) -> Sequence[str]:
        """Return which of these settings the Python connector ``name`` does not declare; Java's: none."""


@dataclass(frozen=True, slots=True)
class Element:
    """A converter, transformation or predicate of a connector and where it runs."""

    setting: str  # value.converter, transforms.x.type
    name: str
    runtime: str  # "python", "java"; "": it was not found


@dataclass(frozen=True, slots=True)
class ConnectorVerdict:
    """The outcome for one connector."""

    name: str
    class_name: str
    runtime: str  # "python", "java"; "": no class was found
    kind: str  # "python", "java" or "mixed": the chain; "": not known
    state: str  # STARTED, PAUSED, STOPPED
    tasks: int
    elements: Sequence[Element] = ()
    lines: Sequence[MigrationFinding] = ()


@dataclass(frozen=True, slots=True)
class MigrationReport:
    """The whole report; ``topics``: findings about the internal topics and the group."""

    worker: Sequence[MigrationFinding]
    topics: Sequence[MigrationFinding]
    connectors: Sequence[ConnectorVerdict]
    there: Sequence[str]
    back: Sequence[str]

    def lines(self) -> list[MigrationFinding]:
        """Return every line, the connectors' named after them."""
        of_connectors = [line for connector in self.connectors for line in connector.lines]
        return [*self.worker, *self.topics, *of_connectors]

    def must_change(self) -> bool:
        """Return whether something must be changed before the move."""
        return any(line.fate is Fate.CHANGE for line in self.lines())


RUNTIME = "connectrt.runtime"
_CONVERTERS = ("key.converter", "value.converter", "header.converter")
_HEADER_DEFAULT = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
_APACHE = "org.apache.kafka."
_CONNECTORS = "spark_connect_rt.connectors"
_REFERENCE = re.compile(r"\$\{([^:}]+):")
_OVERRIDES = {"producer.override.": "producer", "consumer.override.": "consumer", "admin.override.": "admin"}
_SECRET = re.compile(r"password|secret|token|jaas|key$|credential", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Given:
    """A connector as the topics hold it; ``worker``: the settings of the worker's file."""

    name: str
    config: Mapping[str, str]
    state: str
    tasks: int
    failed: Sequence[str]  # its parts that have FAILED: "connector", "task 0"
    worker: Mapping[str, str]
    mixed_group: bool = True  # whether Java workers are to run next to ours meanwhile


def connector_verdict(
    given: Given, catalog: ClassCatalog, client_problem: Callable[[str, str], str | None]
) -> ConnectorVerdict:
    """Return what becomes of a connector."""
    config = given.config
    class_name = config.get("connector.class", "")
    runtime = config.get(RUNTIME, "auto").strip().lower()
    found = catalog.find(class_name, config.get("connector.plugin.version"), runtime) if class_name else None
    elements = list(_elements(given, catalog, found.runtime if found else ""))
    lines = [*_class_lines(given, class_name, found), *_element_lines(elements)]
    lines += _setting_lines(given, catalog, found, client_problem)
    if class_name.strip() in _COMPARED:
        is_installed = found is not None and not found.problem
        lines += _compared_lines(given, *_COMPARED[class_name.strip()], is_installed=is_installed)
    lines += [
        MigrationFinding(task, "FAILED", Fate.DIFFERS, "is FAILED now, and would also fail here")
        for task in given.failed
    ]
    where = found.runtime if found else ""
    return ConnectorVerdict(
        given.name, class_name, where, _kind(where, elements), given.state, given.tasks, elements, lines
    )


def _class_lines(given: Given, class_name: str, found: PlannedPlugin | None) -> Iterator[MigrationFinding]:
    name = "connector.class"
    if found is None:
        why = "found neither here nor on plugin.path. Put its jars there, or run `connectrt plugins install`"
        if (counterpart := counterpart_of(class_name)) is not None:
            why = f"{why}; {counterpart.sentence(given.config)}"
        yield MigrationFinding(name, class_name, Fate.CHANGE, why)
    elif found.problem:
        yield MigrationFinding(name, class_name, Fate.CHANGE, found.problem)
    elif found.runtime == JAVA:
        yield MigrationFinding(name, class_name, Fate.SAME, f"the jar of {found.location}, in the Java host")
    elif not found.twin:
        why = "a Python connector, which Java workers cannot run: stop it before a Java worker joins the group"
        yield MigrationFinding(name, class_name, Fate.DIFFERS if given.mixed_group else Fate.SAME, why)
    elif found.name.startswith(_APACHE):  # a short name may mean another class in Java
        yield MigrationFinding(
            name,
            class_name,
            Fate.SAME,
            f"runs in Python, with the same topics and offsets; {RUNTIME}=java uses the jar's",
        )
    elif given.mixed_group:
        why = (
            "here another implementation in Python, whose task configurations are its own: while Java workers are in "
            f"the group set {RUNTIME}=java with its jars on plugin.path, or stop the connector for the change"
        )
        yield MigrationFinding(name, class_name, Fate.CHANGE, why)
    else:
        yield MigrationFinding(
            name, class_name, Fate.DIFFERS, f"runs with another implementation in Python; {RUNTIME}=java uses the jar's"
        )


def _elements(given: Given, catalog: ClassCatalog, connector_runtime: str) -> Iterator[Element]:
    """Yield the chain in the order in which records pass it: transformations with their predicates, then converters."""
    config = given.config
    for word in ("transforms", "predicates"):
        for alias in parse_value(Type.LIST, config.get(word) or ""):
            setting = f"{word}.{alias}.type"
            yield _element(setting, config.get(setting, ""), catalog, config, connector_runtime)
    for setting in _CONVERTERS:
        name = config.get(setting) or given.worker.get(setting) or (_HEADER_DEFAULT if setting[0] == "h" else "")
        yield _element(setting, name, catalog, config if config.get(setting) else given.worker, connector_runtime)


def _element(
    setting: str, name: str, catalog: ClassCatalog, config: Mapping[str, str], connector_runtime: str
) -> Element:
    found = catalog.find(name, config.get(f"{setting.removesuffix('.type')}.plugin.version")) if name else None
    if found is None or found.problem:
        return Element(setting, name, "")
    in_java = found if found.runtime == JAVA else None
    if connector_runtime == JAVA and in_java is None:  # a Java connector gets its Java stage, if the name has one
        in_java = found if found.name.startswith(_APACHE) else catalog.find(name, runtime=JAVA)
    return Element(setting, found.name, JAVA if in_java else PYTHON)


def _element_lines(elements: Sequence[Element]) -> Iterator[MigrationFinding]:
    for element in elements:
        if not element.runtime:
            why = "is not set" if not element.name else "found neither here nor on plugin.path"
            yield MigrationFinding(element.setting, element.name, Fate.CHANGE, why)


def _kind(where: str, elements: Sequence[Element]) -> str:
    if not where or not all(element.runtime for element in elements):
        return where
    return where if all(element.runtime == where for element in elements) else "mixed"


def _setting_lines(
    given: Given, catalog: ClassCatalog, found: PlannedPlugin | None, client_problem: Callable[[str, str], str | None]
) -> Iterator[MigrationFinding]:
    config = given.config
    aliases = set(parse_value(Type.LIST, given.worker.get("config.providers") or ""))
    for name, value in config.items():
        lost = [reference for reference in _REFERENCE.findall(value or "") if reference not in aliases]
        if lost:
            why = f"refers to config provider {', '.join(lost)}, which the worker's file does not configure"
            yield MigrationFinding(name, shown(name, value), Fate.CHANGE, why)
        prefix = next((override for override in _OVERRIDES if name.startswith(override)), None)
        problem = client_problem(_OVERRIDES[prefix], name.removeprefix(prefix)) if prefix else None
        if problem:
            yield MigrationFinding(name, shown(name, value), Fate.IGNORED, problem)
    if found is not None and found.runtime == PYTHON and not found.problem:
        for name in catalog.unread(found.name, list(config)):
            yield MigrationFinding(
                name, shown(name, config[name]), Fate.IGNORED, "the Python connector has no such setting"
            )


_COMPARED = {
    OFFICIAL_ICEBERG_SINK: ("IcebergSink", f"{_CONNECTORS}.lakehouse.official_sink"),
    CONFLUENT_S3_SINK: ("ObjectStoreSink", f"{_CONNECTORS}.object_store.confluent_sink"),
}
"""Class of another sink -> the bundled sink that takes its settings, and the module with the verdicts."""


def _compared_lines(given: Given, sink: str, module: str, *, is_installed: bool) -> Iterator[MigrationFinding]:
    """Yield what a bundled sink makes of a configuration of a sink with the same settings.

    With its jars on `plugin.path`, the connector runs unchanged in the Java host, so the lines only describe the
    alternative. Without them, the lines are what the change to the bundled sink means.
    """
    # Imported when it is needed: it brings Arrow, which no other line of a report needs.
    from spark_connect_rt.connectors.lakehouse.official_sink import SettingFate

    verdicts = importlib.import_module(module)
    config = {"name": given.name, **given.config}
    taken: Sequence[TakenSetting] = verdicts.taken_settings(config)
    differences: Mapping[str, str] = verdicts.differences(config)
    if is_installed:
        yield MigrationFinding(sink, "", Fate.SAME, f"an alternative in Python: {_taken_summary(taken)}")
        for subject, sentence in differences.items():
            yield MigrationFinding(f"{sink}: {subject}", "", Fate.SAME, sentence)
        return
    fates = {
        SettingFate.HONOURED: Fate.SAME,
        SettingFate.DIFFERS: Fate.DIFFERS,
        SettingFate.IGNORED: Fate.IGNORED,
        SettingFate.REFUSED: Fate.CHANGE,
    }
    for setting in taken:
        value = shown(setting.name, config.get(setting.name, ""))
        yield MigrationFinding(setting.name, value, fates[setting.fate], setting.reason)
    for subject, sentence in differences.items():
        yield MigrationFinding(subject, "", Fate.DIFFERS, sentence)


def _taken_summary(taken: Sequence[TakenSetting]) -> str:
    """Return which settings an alternative honours, ignores and refuses, the last with reasons."""
    by_fate: dict[str, list[TakenSetting]] = {}
    for setting in taken:
        by_fate.setdefault(setting.fate.value, []).append(setting)
    parts = []
    for fate, settings in by_fate.items():
        if fate == "refused":
            named = ", ".join(f"{setting.name} ({setting.reason})" for setting in settings)
        else:
            named = ", ".join(setting.name for setting in settings)
        parts.append(f"{fate}: {named}")
    return "; ".join(parts)


def shown(name: str, value: str) -> str:
    """Return what a report may show of a setting: references as they are, nothing that looks secret."""
    secret = _SECRET.search(name) and not (value or "").startswith("${")
    return "[hidden]" if secret else value
