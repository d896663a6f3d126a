"""Describes one plug-in: kinds, names, and the way to its class."""

from __future__ import annotations

import ast
import importlib
import re
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from spark_connect_rt._moved import former_names
from spark_connect_rt._version import __version__
from spark_connect_rt.api.config_provider import ConfigProvider
from spark_connect_rt.api.connector import Connector, SinkConnector, SourceConnector
from spark_connect_rt.api.converter import Converter, HeaderConverter
from spark_connect_rt.api.override_policy import ConnectorClientConfigOverridePolicy
from spark_connect_rt.api.plugin_modules import BROKEN_PLUGIN, ROOT
from spark_connect_rt.api.predicate import Predicate
from spark_connect_rt.api.rest_extension import ConnectRestExtension
from spark_connect_rt.api.transformation import Transformation
from spark_connect_rt.errors import NotFoundError

# The sentence that describes a plug-in: the first one of its class's docstring, read without an import.
#
# A list of plug-ins must not run their code, so the module is found and parsed, never executed. Owns how a module's
# source is found, and the end of its first sentence.


LENGTH_MAX = 200
# CPython 3.11 counts the depth of a tree for all threads at once. If two threads parse while a callback of the garbage
# collector runs, one gets "SystemError: AST constructor recursion depth mismatch", and a plug-in has no description.
_parsing = threading.Lock()
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[^a-z])")


def description_of(target: str, namespace: str = "") -> str:
    """Return the first sentence of a class's docstring, empty where the class has none or its source is not found.

    Args:
        target: ``package.module:Class``.
        namespace: the plug-in's package below ``connectrt_plugins``; empty: the module is imported under its own name.
    """
    module, _, qualified = target.partition(":")
    try:
        path = _search_path(namespace)
        spec = _spec_of(module, path)
        if spec is None or spec.loader is None:
            return ""
        return first_sentence(_docstrings(module, spec.origin or "", _changed_ns(spec.origin), path).get(qualified, ""))
    except Exception:  # noqa: BLE001 - a broken plug-in is reported elsewhere; here it has no description
        return ""


def first_sentence(docstring: str) -> str:
    """Return the first sentence of a docstring on one line, without reStructuredText's backticks. Pure."""
    paragraph = " ".join(docstring.strip().partition("\n\n")[0].split()).replace("``", "")
    sentence = _SENTENCE_END.split(paragraph, maxsplit=1)[0]
    return sentence if len(sentence) <= LENGTH_MAX else f"{sentence[: LENGTH_MAX - 1]}…"


def docstrings_of(source: str) -> dict[str, str]:
    """Return class -> docstring of a module's source; inner classes as ``Outer.Inner``. Pure.

    A class without a docstring has that of its first base class in the same module, as ``HoistFieldValue`` has.
    Raises SyntaxError.
    """
    found: dict[str, str] = {}

    def visit(nodes: Sequence[ast.stmt], outer: str) -> None:
        for node in nodes:
            if isinstance(node, ast.ClassDef):
                bases = [base.id for base in node.bases if isinstance(base, ast.Name)]
                inherited = next((found[base] for base in bases if base in found), "")
                found[outer + node.name] = ast.get_docstring(node) or inherited
                visit(node.body, f"{outer}{node.name}.")

    visit(ast.parse(source).body, "")
    return found


@lru_cache(maxsize=1024)
def _docstrings(module: str, origin: str, changed_ns: int, path: tuple[str, ...] | None) -> dict[str, str]:
    """Parse a module once for each state of its file: ``origin`` and ``changed_ns`` are there for the cache alone."""
    spec = _spec_of(module, path)
    source = spec.loader.get_source(spec.name) if spec is not None and spec.loader is not None else None  # type: ignore[attr-defined]
    with _parsing:
        return docstrings_of(source or "")


def _search_path(namespace: str) -> tuple[str, ...] | None:
    """Return the folders to search for a plug-in's top package; None: where this Python finds modules."""
    spec = find_spec(f"{ROOT}.{namespace}") if namespace else None
    return tuple(spec.submodule_search_locations or ()) if spec is not None else None


def _spec_of(module: str, path: Sequence[str] | None) -> ModuleSpec | None:
    """Find a module below its packages without importing them, as ``importlib.util.find_spec`` would."""
    loaded = sys.modules.get(module) if path is None else None
    if loaded is not None and loaded.__spec__ is not None:
        return loaded.__spec__
    name, spec = "", None
    for part in module.split("."):
        name = f"{name}.{part}" if name else part
        spec = PathFinder.find_spec(name, path)
        if spec is None:
            return None
        path = list(spec.submodule_search_locations or ())
    return spec


def _changed_ns(origin: str | None) -> int:
    path = Path(origin or "")
    return path.stat().st_mtime_ns if origin and path.is_file() else 0


PluginClass = type[Any]
SINK, SOURCE = "sink", "source"
TYPES = {  # kind of plug-in -> its base class and the suffix an alias may drop, in the order REST lists them
    SINK: (SinkConnector, "Connector"),
    SOURCE: (SourceConnector, "Connector"),
    "transformation": (Transformation, ""),
    "predicate": (Predicate, ""),
    "converter": (Converter, "Converter"),
    "header_converter": (HeaderConverter, "Converter"),
    "configprovider": (ConfigProvider, "ConfigProvider"),
    "rest_extension": (ConnectRestExtension, "RestExtension"),
    "override_policy": (ConnectorClientConfigOverridePolicy, "ConnectorClientConfigOverridePolicy"),
}
IN_REST = (SINK, SOURCE, "transformation", "predicate", "converter", "header_converter")
GROUPS = {  # group of entry points -> kind
    "spark_connect_rt.sink_connectors": SINK,
    "spark_connect_rt.source_connectors": SOURCE,
    "spark_connect_rt.transformations": "transformation",
    "spark_connect_rt.predicates": "predicate",
    "spark_connect_rt.converters": "converter",
    "spark_connect_rt.header_converters": "header_converter",
    "spark_connect_rt.config_providers": "configprovider",
    "spark_connect_rt.rest_extensions": "rest_extension",
    "spark_connect_rt.override_policies": "override_policy",
}


@dataclass(frozen=True, slots=True)
class PluginDesc:
    """One plug-in; ``target`` is ``package.module:Class``, ``java_class`` the name REST shows."""

    target: str
    type: str
    java_class: str
    version: str | None = __version__
    aliases: tuple[str, ...] = field(default=())
    location: str = "bundled"  # bundled, environment, or the plug-in's path
    namespace: str = ""  # below which its modules are imported; empty: under their own names
    listed: bool = True  # False: found by its name, shown by no list

    @property
    def is_java(self) -> bool:
        """Whether a JVM runs it."""
        return False

    @property
    def content(self) -> str:
        """A digest of the jars that are there: none."""
        return ""

    @property
    def description(self) -> str:
        """The purpose of the plug-in in one sentence; empty: unknown. Imports nothing of it."""
        return description_of(self.target, self.namespace)

    @property
    def cls(self) -> PluginClass:
        """The class, imported when first asked for. Raises NotFoundError: it cannot be, or is another kind."""
        found = load_class(f"{ROOT}.{self.namespace}.{self.target}" if self.namespace else self.target)
        wanted = TYPES[self.type][0]
        if not issubclass(found, wanted):
            raise NotFoundError(f"{self.java_class} ({self.location}) is not a {wanted.__name__}", code=BROKEN_PLUGIN)
        if self.version and self.location != "bundled" and issubclass(found, Connector):
            found.plugin_version = self.version  # the version of the installed distribution, not of its host
        return found

    def names(self) -> set[str]:
        """Return every name the plug-in answers to."""
        named = {self.target, self.target.replace(":", "."), self.java_class, *self.aliases}
        suffix = TYPES[self.type][1]
        for name in (self.target.partition(":")[2], self.java_class.rpartition(".")[2]):
            named |= {name, name.removesuffix(suffix)}
        return named - {""}


def bundled(target: str, kind: str, java_class: str | None = None, *aliases: str, listed: bool = True) -> PluginDesc:
    """Return the description of a bundled plug-in; without a Java twin REST shows its Python name of version 0.1."""
    former = former_names(target)
    shown = java_class or (former[0] if former else target).replace(":", ".")
    aliases = (*aliases, *former, *(name.replace(":", ".") for name in former))
    return PluginDesc(target, kind, shown, aliases=aliases, listed=listed)


def kind_of(cls: type[Any]) -> str | None:
    """Return the kind of plug-in of a class, None when it is not a plug-in."""
    return next((kind for kind, (base, _) in TYPES.items() if issubclass(cls, base)), None)


def load_class(target: str) -> type[Any]:
    """Import ``package.module:Class`` (``Class`` may be ``Outer.Inner``). Raises NotFoundError with the reason."""
    module_name, _, qualified = target.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
        for part in qualified.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise NotFoundError(f"class {target} cannot be imported: {error}", code=BROKEN_PLUGIN) from error
    except (Exception, SystemExit) as error:  # the plug-in's own code failed
        why = f"{type(error).__name__}: {error}"
        raise NotFoundError(f"class {target} cannot be imported: {why}", code=BROKEN_PLUGIN) from error
    if not isinstance(found, type):
        raise NotFoundError(f"{target} is not a class")
    return found
