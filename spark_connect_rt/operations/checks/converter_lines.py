"""Whether a connector's converters can be made, and whether the Schema Registry behind them answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from spark_connect_rt.api.converter import Converter, HeaderConverter
from spark_connect_rt.api.outside_checks import Finding, Level
from spark_connect_rt.api.plugin_modules import public_name
from spark_connect_rt.errors import BadConfigError, ConnectError, DataError, RetriableError
from spark_connect_rt.operations.checks.in_parallel import Planned
from spark_connect_rt.operations.checks.model import CONVERTER, CREDENTIALS, REGISTRY
from spark_connect_rt.plugins.interfaces import PluginCatalog
from spark_connect_rt.records.pipeline.connector_converters import CONVERTER_SETTINGS, made_converter
from spark_connect_rt.records.registry.registry_converter import RegistryConverter

_ASKED = "connectrt-check"  # a subject that no topic has: what is asked for, without making it


def planned(config: Mapping[str, str], worker: Mapping[str, str], plugins: PluginCatalog) -> Iterator[Planned]:
    """Yield the checks of key, value and header converter; both configurations are resolved."""
    for setting in CONVERTER_SETTINGS:
        kind = HeaderConverter if setting == "header.converter" else Converter

        def look(setting: str = setting, kind: type[Any] = kind) -> Sequence[Finding]:
            return _made(setting, kind, (config, worker), plugins)

        yield Planned(CONVERTER, setting, look)


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
