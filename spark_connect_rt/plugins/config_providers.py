"""The providers a worker names in ``config.providers``, ready for ``config.indirection.resolve``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from typing import Any

from spark_connect_rt.api.config_provider import ConfigData, ConfigProvider
from spark_connect_rt.base import hidden_values
from spark_connect_rt.config.config_def import Type, parse_value, prefixed
from spark_connect_rt.config.connector_config import unknown_class
from spark_connect_rt.config.indirection import resolve
from spark_connect_rt.errors import BadConfigError, NotFoundError


class ConfigProviders:
    """Every provider of one worker by its alias. Any thread."""

    def __init__(self, providers: Mapping[str, ConfigProvider]) -> None:
        """Take configured providers."""
        self._providers = dict(providers)

    @classmethod
    def from_config(cls, worker_config: Mapping[str, str], plugin: Callable[[str], type[Any]]) -> ConfigProviders:
        """Return the providers of ``config.providers``. Raises BadConfigError naming every bad setting."""
        providers: dict[str, ConfigProvider] = {}
        problems: dict[str, list[str]] = {}
        for alias in parse_value(Type.LIST, worker_config.get("config.providers") or ""):
            setting = f"config.providers.{alias}.class"
            name = worker_config.get(setting)
            try:
                made = plugin(name)() if name else None
                if not isinstance(made, ConfigProvider):
                    problems[setting] = [f"{name} is not a config provider" if name else "must be set"]
                    continue
                made.configure(prefixed(worker_config, f"config.providers.{alias}.param."))
                providers[alias] = made
            except NotFoundError:
                problems[setting] = [f"{unknown_class(setting, str(name))} Put its jar or package on plugin.path"]
            except BadConfigError as error:
                problems.update({f"config.providers.{alias}.param.{k}": list(v) for k, v in error.problems.items()})
        if problems:
            raise BadConfigError(problems)
        return cls(providers)

    def resolve(self, config: Mapping[str, str]) -> ConfigData:
        """Return the settings with every reference replaced, and the shortest time a value of them may be used.

        Raises BadConfigError naming an unreadable path.
        """
        ttls_ms: list[int] = []

        def look_up(alias: str, path: str, keys: Set[str]) -> Mapping[str, str]:
            provider = self._providers.get(alias)
            found = {} if provider is None else provider.get(path, keys)
            if isinstance(found, ConfigData) and found.ttl_ms is not None:
                ttls_ms.append(found.ttl_ms)
            hidden_values.remember(found[key] for key in keys if key in found)
            return found

        values = resolve(config, look_up) if self._providers else config
        return ConfigData(values, min(ttls_ms, default=None))
