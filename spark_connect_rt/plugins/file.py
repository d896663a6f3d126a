"""``${file:/path/x.properties:key}``: one key of a properties file (Java ``FileConfigProvider``)."""

from __future__ import annotations

from collections.abc import Mapping, Set
from pathlib import Path

from spark_connect_rt.api.config_provider import ConfigProvider
from spark_connect_rt.config.config_def import Type, parse_value
from spark_connect_rt.config.java_properties import load_properties
from spark_connect_rt.config.repeated_settings import warn_repeated

ALLOWED_PATHS = "allowed.paths"


def allowed_folders(config: Mapping[str, str]) -> tuple[Path, ...] | None:
    """Return the folders that ``allowed.paths`` names; None: everything may be read."""
    given = parse_value(Type.LIST, config.get(ALLOWED_PATHS) or "")
    return tuple(Path(folder).resolve() for folder in given) or None


def is_allowed(path: Path, folders: tuple[Path, ...] | None) -> bool:
    """Answer whether ``path``, links followed, lies in one of ``folders``."""
    real = path.resolve()
    return folders is None or any(real.is_relative_to(folder) for folder in folders)


class FileConfigProvider(ConfigProvider):
    """Reads the file at every look-up; an empty or forbidden path has no values."""

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
