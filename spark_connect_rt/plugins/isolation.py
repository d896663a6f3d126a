"""Imports the modules of each plug-in apart from all others (Java ``PluginClassLoader``).

Every plug-in has a package ``connectrt_plugins.<name>`` whose path is the plug-in's own folder or wheel. Its modules
get their own ``__import__``, which searches there first. So two plug-ins may bring different versions of one
dependency, a plug-in's own copy wins over the worker's, and neither sees the other's. Names in ``sys.modules`` are the
long ones.

The standard library, this package, PySpark and Arrow are always the worker's. So is every package with compiled modules
that the worker has too, because CPython loads such a library once in a process. Plug-ins share a compiled package that
only they have; a second version of it is rejected.
"""

from __future__ import annotations

import builtins
import importlib
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec, PathFinder
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from spark_connect_rt.api.plugin_modules import ROOT
from spark_connect_rt.plugins.locations import Location

_WORKERS = frozenset({"spark_connect_rt", "pyspark", "py4j", "pyarrow", ROOT})


class PluginImports:
    """How the modules of one plug-in import others."""

    def __init__(self, location: Location) -> None:
        self._location = location
        self._package = f"{ROOT}.{location.name}"
        self._own: dict[str, bool] = {}  # top-level name -> is it imported from the plug-in
        self._importlib: ModuleType | None = None
        self.builtins = {**vars(builtins), "__import__": self._import}

    def _import(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,
        locals: Mapping[str, Any] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        top = name.partition(".")[0]
        if level or not self._is_own(top):
            found = builtins.__import__(name, globals, locals, fromlist or (), level)
            return self._own_importlib() if found is importlib and (fromlist or name == top) else found
        found = builtins.__import__(f"{self._package}.{name}", globals, locals, fromlist or (), 0)
        return found if fromlist else sys.modules[f"{self._package}.{top}"]

    def _import_module(self, name: str, package: str | None = None) -> ModuleType:
        """Be ``importlib.import_module`` for the plug-in's own code."""
        if not name.startswith(".") and self._is_own(name.partition(".")[0]):
            name = f"{self._package}.{name}"
        return importlib.import_module(name, package)

    def _own_importlib(self) -> ModuleType:
        if self._importlib is None:
            self._importlib = ModuleType("importlib")
        self._importlib.__dict__.update({**vars(importlib), "import_module": self._import_module})
        return self._importlib

    def _is_own(self, top: str) -> bool:
        if top not in self._own:
            self._own[top] = self._decide(top)
        return self._own[top]

    def _decide(self, top: str) -> bool:
        if top in sys.stdlib_module_names or top in _WORKERS:
            return False
        site = str(self._location.site)
        if PathFinder.find_spec(f"{self._package}.{top}", [site]) is None:
            return False
        if not _is_compiled(self._location.site, top):
            return True
        if top not in sys.modules and find_spec(top) is None:
            _SHARED.lend(top, self._location)
        else:
            _SHARED.refuse_another(top, self._location)
        return False


class _Apart(Loader):
    """Loads a module as its own loader does, with the plug-in's ``__import__``."""

    def __init__(self, loader: Loader, imports: PluginImports) -> None:
        self._loader = loader
        self._imports = imports

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__["__builtins__"] = self._imports.builtins
        self._loader.exec_module(module)

    def __getattr__(self, name: str) -> Any:  # get_data, get_resource_reader ...: other methods of the loader
        return getattr(self._loader, name)


class _Finder(MetaPathFinder):
    """Finds ``connectrt_plugins`` and everything below it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._locations: dict[str, Location] = {}
        self._imports: dict[str, PluginImports] = {}
        self.look_again: Callable[[], object] | None = None

    def add(self, locations: Iterable[Location]) -> None:
        """Make these plug-ins importable; a known name keeps its plug-in."""
        with self._lock:
            for location in locations:
                self._locations.setdefault(location.name, location)

    def _find(self, name: str) -> Location | None:
        with self._lock:
            location = self._locations.get(name)
        if location is None and self.look_again is not None:
            self.look_again()
            with self._lock:
                location = self._locations.get(name)
        return location

    def forget_missing(self) -> None:
        """Forget the plug-ins whose folder is gone, because another plug-in may take its place."""
        with self._lock:
            gone = [name for name, location in self._locations.items() if not location.path.exists()]
            for name in gone:
                del self._locations[name]
                self._imports.pop(name, None)
        for name in gone:
            below = f"{ROOT}.{name}"
            for module in [
                module_name
                for module_name in list(sys.modules)
                if module_name == below or module_name.startswith(f"{below}.")
            ]:
                sys.modules.pop(module, None)
        if gone:
            sys.path_importer_cache.clear()

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:
        parts = fullname.split(".")
        if parts[0] != ROOT:
            return None
        if len(parts) == 1:
            return _package(fullname, [])
        location = self._find(parts[1])
        if location is None or location.error or location.java:
            return None
        if len(parts) == 2:
            return _package(fullname, [str(location.site)])
        spec = PathFinder.find_spec(fullname, path)
        if spec is not None and spec.loader is not None:
            spec.loader = _Apart(spec.loader, self._imports_of(location))  # type: ignore[arg-type]
        return spec

    def _imports_of(self, location: Location) -> PluginImports:
        with self._lock:
            return self._imports.setdefault(location.name, PluginImports(location))


class _SharedCompiled(MetaPathFinder):
    """Finds packages with compiled modules that only plug-ins have, and their dependencies."""

    def __init__(self) -> None:
        self._lenders: dict[str, Location] = {}

    def lend(self, top: str, location: Location) -> None:
        """Share a package of this plug-in, the first that asked for it."""
        self._lenders.setdefault(top, location)

    def refuse_another(self, top: str, location: Location) -> None:
        """Raise ImportError if another plug-in's copy is loaded: one process holds one."""
        lender = self._lenders.get(top)
        if lender is not None and lender.path != location.path:
            raise ImportError(
                f"{top} has compiled modules, and the copy of plug-in {lender.path.name} is already in use. "
                "Install one version of it in the worker's environment for both plug-ins",
                name=top,
            )

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:
        if path is not None or not self._lenders:
            return None
        sites = [str(location.site) for location in self._lenders.values()]
        return PathFinder.find_spec(fullname, list(dict.fromkeys(sites)))


_FINDER = _Finder()
_SHARED = _SharedCompiled()


def make_importable(locations: Iterable[Location]) -> None:
    """Have ``connectrt_plugins.<name>`` import from these plug-ins in this process. Any number of times."""
    _FINDER.add(locations)
    if _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)
        sys.meta_path.append(_SHARED)


def look_when_missing(look_again: Callable[[], object]) -> None:
    """Call this when an unknown plug-in is imported, which may have been added since; it calls make_importable."""
    _FINDER.look_again = look_again


def forget_missing() -> None:
    """Forget plug-ins that were removed, and their modules. Running tasks keep the code that they have."""
    _FINDER.forget_missing()


def _package(fullname: str, path: list[str]) -> ModuleSpec:
    spec = ModuleSpec(fullname, loader=None, is_package=True)
    spec.submodule_search_locations = path
    return spec


def _is_compiled(site: Path, top: str) -> bool:
    """Return whether a package or module of a folder holds compiled modules."""
    if not site.is_dir():
        return False  # a wheel of pure Python
    suffixes = tuple(EXTENSION_SUFFIXES)
    if any(path.name.endswith(suffixes) for path in site.glob(f"{top}.*")):
        return True
    return any(path.name.endswith(suffixes) for path in (site / top).rglob("*.*"))
