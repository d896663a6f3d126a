"""Checks a configuration, line by line: first its validation, then the checks that need other systems.

Owns the order of the lines and that no secret is in one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from spark_connect_rt.api.connector import Connector, SinkConnector
from spark_connect_rt.api.converter import Converter, HeaderConverter
from spark_connect_rt.api.outside_checks import Finding, Level
from spark_connect_rt.api.plugin_modules import public_name
from spark_connect_rt.base.hidden_values import HIDDEN, without_secrets
from spark_connect_rt.base.json_text import tellable
from spark_connect_rt.config.secrets import secrets_in
from spark_connect_rt.config.stored_config import StoredConfig
from spark_connect_rt.config.unread_settings import unread_settings
from spark_connect_rt.connectors.mirror.neighbours import other_names
from spark_connect_rt.connectors.mirror.policy import POLICY_CLASS
from spark_connect_rt.engine.executor.reach import Obstacles, ReachFrom
from spark_connect_rt.engine.task_runner import JavaConnector
from spark_connect_rt.errors import (
    BadConfigError,
    BadRequestError,
    ConnectError,
    DataError,
    NotFoundError,
    RetriableError,
)
from spark_connect_rt.kafka.permission_checks import Clusters
from spark_connect_rt.operations.checks.addresses import (
    ConfiguredAddress,
    PlacedFinding,
    addresses_in,
    line_of,
    reached,
)
from spark_connect_rt.operations.checks.check_runner import ParallelChecks, PlannedCheck
from spark_connect_rt.operations.checks.kafka_checks import KafkaChecks
from spark_connect_rt.operations.checks.model import (
    CHECKS,
    CONVERTER,
    CREDENTIALS,
    HOST,
    NAME,
    OFFSETS,
    REGISTRY,
    VALIDATION,
    CheckLine,
    CheckReport,
    CheckRequest,
)
from spark_connect_rt.operations.checks.offset_checks import OffsetChecks
from spark_connect_rt.operations.preview.service import StartingPoints
from spark_connect_rt.plugins.counterparts import counterpart_of
from spark_connect_rt.plugins.interfaces import PluginCatalog
from spark_connect_rt.records.pipeline.connector_converters import CONVERTER_SETTINGS, made_converter
from spark_connect_rt.records.registry.registry_converter import RegistryConverter
from spark_connect_rt.runtime.herder.dependencies import HerderDependencies
from spark_connect_rt.runtime.herder.herder_api import HerderApi
from spark_connect_rt.runtime.herder.validation import doubts, validated
from spark_connect_rt.runtime.worker.launches import new_connector, secret_settings

# Whether a connector's converters can be made, and whether the Schema Registry behind them answers.


_ASKED = "connectrt-check"  # a subject that no topic has: it is looked up and never created


def planned(config: Mapping[str, str], worker: Mapping[str, str], plugins: PluginCatalog) -> Iterator[PlannedCheck]:
    """Yield the checks of key, value and header converter; both configurations are resolved."""
    for setting in CONVERTER_SETTINGS:
        kind = HeaderConverter if setting == "header.converter" else Converter

        def look(setting: str = setting, kind: type[Any] = kind) -> Sequence[Finding]:
            return _made(setting, kind, (config, worker), plugins)

        yield PlannedCheck(CONVERTER, setting, look)


def _made(
    setting: str, kind: type[Any], configs: tuple[Mapping[str, str], Mapping[str, str]], plugins: PluginCatalog
) -> Sequence[Finding]:
    try:
        converter = made_converter(setting, kind, configs, plugins.class_of)
    except BadConfigError as error:
        return [
            Finding(CONVERTER, name, Level.PROBLEM, "; ".join(why), f"correct {name}")
            for name, why in error.problems.items()
        ]
    whose = "the connector's" if configs[0].get(setting) else "the worker's"
    name = getattr(converter, "java_class", "") or public_name(type(converter))
    found = Finding(CONVERTER, setting, Level.OK, f"{name} can be created ({whose})")
    return [found, *(_registry(setting, converter) if isinstance(converter, RegistryConverter) else ())]


def _registry(setting: str, converter: RegistryConverter[Any, Any]) -> Sequence[Finding]:
    url = f"{setting}.schema.registry.url"
    try:
        converter.registry.latest(_ASKED)
    except DataError:  # it says that it has no such subject, as it should
        pass
    except RetriableError as error:
        return [Finding(REGISTRY, url, Level.PROBLEM, str(error), f"correct {url}, or open the way there")]
    except ConnectError as error:
        change = f"correct {setting}.basic.auth.* or bearer.auth.*"
        return [Finding(CREDENTIALS, url, Level.PROBLEM, str(error), change)]
    return [Finding(REGISTRY, url, Level.OK, "the Schema Registry answers and accepts these credentials")]


VALIDATION_LIMIT_S = 30.0  # of a connector's own code, perhaps in a JVM that is to start
LIMIT_S = 12.0
EXECUTOR_LIMIT_S = 5.0  # for a core of an executor that is free, and the look itself
_TOPICS_LIMIT_S = 8.0
log = logging.getLogger(__name__)
_LINE_LIMIT = 2_000


class ConnectorChecks:
    """Implements operations.checks.model.Checks on one worker."""

    def __init__(
        self,
        deps: HerderDependencies,
        herder: HerderApi,
        clusters: Clusters,
        limit_s: float = LIMIT_S,
        reach: ReachFrom | None = None,
    ) -> None:
        """Take what a worker has; ``limit_s`` is of each line; ``reach`` None: only this worker looks."""
        self._reach = reach
        self._deps, self._clusters = deps, clusters
        self._starting = StartingPoints(deps, herder, lambda given: clusters.topics(given, _TOPICS_LIMIT_S))
        self._parallel = ParallelChecks(limit_s)

    def check(self, request: CheckRequest) -> CheckReport:
        """Check a configuration or an existing connector; return the lines in their order. Raises ConnectError."""
        config, name = self._asked(request)
        lines = self._parallel.run(
            [PlannedCheck(VALIDATION, "connector.class", lambda: self._validation(config))], VALIDATION_LIMIT_S
        )
        secrets: Callable[[], Mapping[str, str]] = lambda: _hidden(config, ())  # noqa: E731 - until its class is known
        try:
            resolved = self._deps.resolve(config)
            connector = new_connector(self._deps.plugins, resolved)
            names = secret_settings(connector)
            secrets = lambda: _hidden({**config, **resolved}, names)  # noqa: E731 - as above
            valid = all(finding.level is not Level.PROBLEM for finding in lines)
            lines += self._parallel.run(
                list(self._outside(connector, name, StoredConfig(config), resolved, names, valid=valid))
            )
        except BadConfigError as error:
            lines += _problems(error.problems)
        except NotFoundError:
            pass  # said by validation
        order = {check: at for at, check in enumerate(CHECKS)}
        shown = secrets()
        here = f"worker {self._deps.settings.worker_id}"
        found = tuple(
            _line(finding, shown, here) for finding in sorted(lines, key=lambda line: order.get(line.check, len(order)))
        )
        return CheckReport(all(line.ok for line in found), found)

    def _asked(self, request: CheckRequest) -> tuple[dict[str, str], str]:
        """Return the configuration and its name, which may be empty. Raises NotFoundError, BadRequestError."""
        if request.config is not None:
            given = dict(request.config)
            name = request.name or given.get("name") or ""
            if request.name and given.get("name", request.name) != request.name:
                raise BadRequestError(
                    f"name is {request.name}, but the configuration names {given['name']}. Use one name"
                )
            return ({**given, "name": name} if name else given), name
        stored = self._deps.config_store.snapshot().connector_config(request.name or "")
        if stored is None:
            raise NotFoundError(f"Connector {request.name} not found")
        return dict(stored.written()), request.name or ""

    def _validation(self, config: Mapping[str, str]) -> Sequence[Finding]:
        named = {"name": "check", **config}
        try:
            infos = validated(self._deps, named)
        except BadRequestError as error:
            counterpart = counterpart_of(config.get("connector.class") or "")
            change = "correct connector.class" if counterpart is None else counterpart.sentence(config)
            return [Finding(VALIDATION, "connector.class", Level.PROBLEM, str(error), change)]
        unread = self._unread(config, infos.declared())
        if problems := infos.problems():
            return [*_problems(problems), *unread]
        doubtful = doubts(self._deps, self._deps.resolve(named))
        return [
            Finding(VALIDATION, "", Level.OK, f"{len(config)} settings are valid"),
            *unread,
            *(Finding(VALIDATION, name, Level.WARNING, why, f"correct {name}") for name, why in doubtful.items()),
        ]

    def _unread(self, config: Mapping[str, str], declared: Collection[str]) -> Iterator[Finding]:
        connector = new_connector(self._deps.plugins, self._deps.resolve(config))
        for setting in unread_settings(config, declared, declares_all=not isinstance(connector, JavaConnector)):
            change = f"rename it to {setting.nearest}" if setting.nearest else "remove it, or correct its name"
            yield Finding(VALIDATION, setting.name, Level.WARNING, setting.sentence(), change)

    def _outside(
        self,
        connector: Connector,
        name: str,
        stored: StoredConfig,
        resolved: Mapping[str, str],
        secret: Sequence[str],
        *,
        valid: bool,
    ) -> Iterator[PlannedCheck]:
        sink = isinstance(connector, SinkConnector)
        worker = self._deps.resolve(self._deps.settings.worker.raw)
        yield from planned(resolved, worker, self._deps.plugins)
        kafka = KafkaChecks(self._deps, self._clusters, name or "check", stored, resolved, sink=sink)
        yield from kafka.planned()
        offsets = OffsetChecks(self._deps, self._starting, name, stored, resolved, sink=sink)
        yield PlannedCheck(NAME, "name", offsets.of_name)
        yield PlannedCheck(OFFSETS, "name", offsets.of_offsets)
        kafkas = [setting for setting in resolved if ".override." in setting]
        yield PlannedCheck(NAME, POLICY_CLASS, lambda: self._neighbours(name, resolved))
        addresses = addresses_in(resolved, {*secret, *kafkas})
        seen = self._from_executor(addresses)
        for number, address in enumerate(addresses):
            if seen is None:
                yield PlannedCheck(HOST, address.setting, lambda address=address: reached(address))  # type: ignore[misc]
            else:
                line = line_of(address, seen.why[number], seen.host)
                yield PlannedCheck(HOST, address.setting, lambda line=line: [line])  # type: ignore[misc]
        if valid:
            for look in connector.outside_checks(dict(resolved)):
                yield PlannedCheck(CREDENTIALS, "connector.class", look)

    def _neighbours(self, name: str, config: Mapping[str, str]) -> Sequence[Finding]:
        there = self._deps.config_store.snapshot().connector_configs
        others = {other: stored.resolved(self._deps.resolve) for other, stored in there.items() if other != name}
        return [
            Finding(NAME, setting, Level.WARNING, what, f"set the same {setting} in both")
            for setting, what in other_names(config, others)
        ]

    def _from_executor(self, addresses: Sequence[ConfiguredAddress]) -> Obstacles | None:
        """Return what an executor, where tasks will run, can reach; None: none could look, this worker does."""
        if not addresses or self._reach is None:
            return None
        try:
            return self._reach([(address.host, address.port) for address in addresses], EXECUTOR_LIMIT_S)
        except ConnectError as error:
            log.info("hosts are checked from the worker, because no executor answered: %s", error)
            return None


def _problems(problems: Mapping[str, Sequence[str]]) -> list[Finding]:
    return [
        Finding(VALIDATION, setting, Level.PROBLEM, "; ".join(why), f"correct {setting}")
        for setting, why in problems.items()
    ]


def _hidden(config: Mapping[str, str], names: Sequence[str]) -> Mapping[str, str]:
    return dict.fromkeys(secrets_in([config], names), HIDDEN)


def _line(found: Finding, secrets: Mapping[str, str], here: str) -> CheckLine:
    def shown(text: str) -> str:
        return tellable(without_secrets(text, secrets))[:_LINE_LIMIT]

    ok = found.level is not Level.PROBLEM
    where = f"executor {found.where}" if isinstance(found, PlacedFinding) and found.where else here
    return CheckLine(found.check, found.setting, ok, found.level.value, shown(found.what), shown(found.change), where)
