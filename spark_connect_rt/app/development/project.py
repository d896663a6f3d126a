"""A connector's source files: which folders they are in, which class the connector file means, and how to reload them.

Imports a project's modules under their own names, as an installed package would be. A reload forgets these modules.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spark_connect_rt.cli.files import read_one
from spark_connect_rt.config.programs import PROGRAMS, allowed_programs, names_programs, refuse_programs
from spark_connect_rt.errors import BadConfigError, NotFoundError
from spark_connect_rt.plugins.bundled_plugins import BUNDLED
from spark_connect_rt.plugins.config_providers import ConfigProviders
from spark_connect_rt.plugins.discovery import discover
from spark_connect_rt.plugins.locations import ENTRY_POINTS, Location, entries_of
from spark_connect_rt.plugins.plugin_desc import GROUPS, PluginDesc, load_class
from spark_connect_rt.plugins.registry import Plugins

PYPROJECT = "pyproject.toml"
_CLASS = "connector.class"
_JAVA_NAME = re.compile(r"[a-z_]\w*(?:\.[a-z_]\w*)+\.[A-Z][\w$]*")
_IN_JAVA = (
    "{name} is not a Python class that can be imported here. If it is a Java connector: connectrt dev does not run "
    "Java. Install it on a worker with connectrt plugins install, then use connectrt preview {file} there"
)
_PARENTS = 3  # folders above the connector file's that may be the project's root


@dataclass(frozen=True, slots=True)
class LoadedConnector:
    """A connector as its file and its modules are now."""

    name: str
    config: Mapping[str, str]
    connector_class: type[Any]
    find_plugin: Callable[[str], type[Any]]


class Project:
    """One connector file and the folders of its sources."""

    def __init__(self, file: Path, sources: Sequence[Path] = (), worker: Mapping[str, str] | None = None) -> None:
        """Take the file; ``sources``: folders to import from and watch, none: the project that the file is in.

        ``worker``: a worker's settings, of which ``config.providers`` are used.
        """
        self.file = file.absolute()
        root = project_root(self.file)
        self.roots = tuple(folder.absolute() for folder in sources) or (root,)
        self._worker = dict(worker or {})

    @property
    def folders(self) -> tuple[Path, ...]:
        """Return the folders that modules are imported from: each root, and its ``src`` if there is one."""
        found = [folder for root in self.roots for folder in (root, root / "src") if folder.is_dir()]
        return tuple(dict.fromkeys(found))

    def load(self) -> LoadedConnector:
        """Read the connector file and import the class that it names. A connector without a name has the file's.

        Raises BadConfigError: the file, or its ``connector.class``. NotFoundError: no such class, or it cannot be
        imported; the cause is what its module raised.
        """
        document = read_one(str(self.file), self.file.stem)
        for folder in reversed(self.folders):
            if str(folder) not in sys.path:
                sys.path.insert(0, str(folder))
        importlib.invalidate_caches()
        plugins = Plugins([*BUNDLED, *self._declared()], discover=lambda: discover(()))
        find = self._finder(plugins)
        config = dict(ConfigProviders.from_config(self._worker, find).resolve(document.config))
        if not config.get(_CLASS):
            raise BadConfigError({_CLASS: ["must be set: a class of this project, or a bundled connector"]})
        if names_programs(config):
            _refuse_programs(config, allowed_programs(self._worker))
        try:
            return LoadedConnector(document.name, config, find(config[_CLASS]), find)
        except NotFoundError as error:
            if is_java_name(config[_CLASS]):
                raise NotFoundError(_IN_JAVA.format(name=config[_CLASS], file=self.file.name)) from error
            raise

    def forget(self) -> None:
        """Drop the project's modules, so that the next ``load`` runs their code as it is then."""
        folders = {place for folder in self.folders for place in (folder, folder.resolve())}
        for name, module in list(sys.modules.items()):
            if any(is_below(place, folder) for place in _places(module) for folder in folders):
                del sys.modules[name]

    def _declared(self) -> Iterator[PluginDesc]:
        """Return the plug-ins that the project declares as entry points."""
        for root in self.roots:
            for group, name, target in declared_entries(root):
                if group in GROUPS:
                    shown = name if "." in name else target.replace(":", ".")
                    yield PluginDesc(target, GROUPS[group], shown, None, aliases=(name,), location=str(root))

    def _finder(self, plugins: Plugins) -> Callable[[str], type[Any]]:
        def find(name: str) -> type[Any]:
            module, _, _ = target_of(name).partition(":")
            if any(_holds(folder, module) for folder in self.folders):
                return load_class(target_of(name))
            return plugins.class_of(name)

        return find


def is_java_name(name: str) -> bool:
    """Return whether a class name looks like Java's and is not that of a Python module here: ``io.debezium...``."""
    if _JAVA_NAME.fullmatch(name.strip()) is None:
        return False
    module, _, _ = name.strip().rpartition(".")
    try:
        return importlib.util.find_spec(module) is None
    except (ImportError, ValueError):
        return True


def _refuse_programs(config: Mapping[str, str], allowed: Sequence[str]) -> None:
    """Refuse programs as a worker does, and say how this command allows them. Raises BadConfigError."""
    try:
        refuse_programs(config, allowed)
    except BadConfigError as error:
        how = f"connectrt dev takes it as --set {PROGRAMS}=..."
        problems = {setting: [f"{why}; {how}" for why in reasons] for setting, reasons in error.problems.items()}
        raise BadConfigError(problems) from error


def project_root(file: Path) -> Path:
    """Return the nearest folder above a file with a ``pyproject.toml`` or ``entry_points.txt``, or the file's own."""
    for folder in list(file.parents)[: _PARENTS + 1]:
        if (folder / PYPROJECT).is_file() or (folder / ENTRY_POINTS).is_file():
            return folder
    return file.parent


def declared_entries(root: Path) -> list[tuple[str, str, str]]:
    """Return (group, name, target) of a project's entry points. Raises BadConfigError: they cannot be read."""
    found = []
    try:
        if (root / PYPROJECT).is_file():
            project = tomllib.loads((root / PYPROJECT).read_text("utf-8")).get("project", {})
            for group, entries in project.get("entry-points", {}).items():
                found += [(group, name, str(target)) for name, target in entries.items()]
        if (root / ENTRY_POINTS).is_file():
            location = Location(root.name, root, root)
            found += [(entry.group, entry.name, entry.target) for entry in entries_of(location)]
    except (OSError, ValueError, AttributeError) as error:
        raise BadConfigError({str(root): [f"the project's entry points cannot be read: {error}"]}) from error
    return found


def target_of(name: str) -> str:
    """Return a class's name as ``module:Class``."""
    module, colon, qualified = name.strip().partition(":")
    if colon:
        return f"{module}:{qualified}"
    module, _, qualified = name.strip().rpartition(".")
    return f"{module}:{qualified}"


def is_below(path: str, folder: Path) -> bool:
    """Return whether a path lies in ``folder``, at any depth: as it is written, links are not followed."""
    # Thousands of modules are asked about at each reload.
    return path == str(folder) or path.startswith(f"{folder}{os.sep}")


def _holds(folder: Path, module: str) -> bool:
    """Return whether a folder has the top module or package of a dotted name."""
    top = module.partition(".")[0]
    return bool(top) and ((folder / f"{top}.py").is_file() or (folder / top).is_dir())


def _places(module: Any) -> list[str]:
    """Return the files or folders a module was loaded from."""
    file = getattr(module, "__file__", None)
    if isinstance(file, str):
        return [file]
    try:
        return [str(folder) for folder in getattr(module, "__path__", None) or ()]
    except Exception:  # noqa: BLE001 - modules of others answer to attributes as they like
        return []
