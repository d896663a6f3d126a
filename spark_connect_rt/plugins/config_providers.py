"""The providers a worker names in ``config.providers``, ready for ``config.secrets.resolve``."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Set
from pathlib import Path
from typing import Any

from spark_connect_rt.api.config_provider import ConfigData, ConfigProvider
from spark_connect_rt.base import hidden_values
from spark_connect_rt.config.config_def import Type, parse_value, prefixed
from spark_connect_rt.config.connector_config import unknown_class
from spark_connect_rt.config.java_properties import load_properties
from spark_connect_rt.config.repeated_settings import warn_repeated
from spark_connect_rt.config.secrets import resolve
from spark_connect_rt.errors import BadConfigError, NotFoundError


class ConfigProviders:
    """Every provider of one worker by its alias. Any thread."""

    def __init__(self, providers: Mapping[str, ConfigProvider]) -> None:
        """Take the configured providers, by alias."""
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


# ``${file:/path/x.properties:key}``: one key of a properties file (Java ``FileConfigProvider``).


ALLOWED_PATHS = "allowed.paths"


def allowed_folders(config: Mapping[str, str]) -> tuple[Path, ...] | None:
    """Return the folders that ``allowed.paths`` names; None: everything may be read."""
    given = parse_value(Type.LIST, config.get(ALLOWED_PATHS) or "")
    return tuple(Path(folder).resolve() for folder in given) or None


def is_allowed(path: Path, folders: tuple[Path, ...] | None) -> bool:
    """Return whether ``path``, with links followed, is in one of ``folders``."""
    real = path.resolve()
    return folders is None or any(real.is_relative_to(folder) for folder in folders)


class FileConfigProvider(ConfigProvider):
    """Reads the file for every request. An empty or forbidden path has no values."""

    _folders: tuple[Path, ...] | None = None

    def configure(self, config: Mapping[str, str]) -> None:
        """Take the folders of ``allowed.paths``; files elsewhere are not read."""
        self._folders = allowed_folders(config)

    def get(self, path: str, keys: Set[str] | None = None) -> Mapping[str, str]:
        """Return the file's settings. Raises BadConfigError naming a file that cannot be read."""
        if not path or not is_allowed(Path(path), self._folders):
            return {}
        settings = warn_repeated(load_properties(path), path)
        return settings if keys is None else {key: settings[key] for key in keys if key in settings}


# ``${directory:/path:file}``: one whole file of a folder, as secrets are (Java ``DirectoryConfigProvider``).


class DirectoryConfigProvider(ConfigProvider):
    """Every regular file of the folder is a key; an empty or forbidden path, or no folder, has no values."""

    _folders: tuple[Path, ...] | None = None

    def configure(self, config: Mapping[str, str]) -> None:
        """Take the allowed folders of ``allowed.paths``."""
        self._folders = allowed_folders(config)

    def get(self, path: str, keys: Set[str] | None = None) -> Mapping[str, str]:
        """Return file name -> content. Raises BadConfigError naming a file that cannot be read."""
        folder = Path(path)
        if not path or not is_allowed(folder, self._folders) or not folder.is_dir():
            return {}
        names = [entry.name for entry in folder.iterdir()] if keys is None else sorted(keys)
        # A key with a separator would leave the folder; a link that leaves it is stopped by allowed.paths.
        files = [folder / name for name in names if name and Path(name).name == name]
        return {file.name: _content(file) for file in files if file.is_file() and is_allowed(file, self._folders)}


def _content(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not valid UTF-8"
        raise BadConfigError({str(file): [f"cannot be read: {reason}"]}) from None


# ``${env:NAME}``: an environment variable (Java ``EnvVarConfigProvider``).


ALLOWLIST = "allowlist.pattern"


class EnvVarConfigProvider(ConfigProvider):
    """Reads the process's environment; variables that ``allowlist.pattern`` does not match whole are not there."""

    _allowed: re.Pattern[str] | None = None

    def configure(self, config: Mapping[str, str]) -> None:
        """Take ``allowlist.pattern``. Raises BadConfigError: it does not compile."""
        pattern = config.get(ALLOWLIST)
        try:
            self._allowed = re.compile(pattern) if pattern else None
        except re.error as error:
            raise BadConfigError({ALLOWLIST: [f"invalid regex {pattern}: {error}"]}) from None

    def get(self, path: str, keys: Set[str] | None = None) -> Mapping[str, str]:
        """Return the variables. Raises BadConfigError: a path was given."""
        if path:
            raise BadConfigError({"${env:...}": [f"environment variables have no path, but the path is {path!r}"]})
        allowed = self._allowed
        return {
            name: value
            for name, value in os.environ.items()
            if (keys is None or name in keys) and (allowed is None or allowed.fullmatch(name))
        }
