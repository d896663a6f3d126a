"""The sentence that says what a plug-in does: the first one of its class's docstring, read without an import.

A list of plug-ins must not run their code, so the module is found and parsed, never executed. Owns how a module's
source is found, and what counts as its first sentence.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Sequence
from functools import lru_cache
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from pathlib import Path

from spark_connect_rt.api.plugin_modules import ROOT

LENGTH_MAX = 200
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
