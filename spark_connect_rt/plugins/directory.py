"""``${directory:/path:file}``: one whole file of a folder, as secrets are (Java ``DirectoryConfigProvider``)."""

from __future__ import annotations

from collections.abc import Mapping, Set
from pathlib import Path

from spark_connect_rt.api.config_provider import ConfigProvider
from spark_connect_rt.errors import BadConfigError
from spark_connect_rt.plugins.file import allowed_folders, is_allowed


class DirectoryConfigProvider(ConfigProvider):
    """Every regular file of the folder is a key; an empty or forbidden path, or no folder, has no values."""

    _folders: tuple[Path, ...] | None = None

    def configure(self, config: Mapping[str, str]) -> None:
        """Take ``allowed.paths``."""
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
