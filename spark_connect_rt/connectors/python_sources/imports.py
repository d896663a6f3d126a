"""Imports of other projects' modules, one at a time in a process.

Tasks start, and configurations are checked, in threads. Where two of them import large packages that need each other's
parts, Python gives one of them a module that is half made rather than wait for ever.
"""

from __future__ import annotations

import importlib
import threading
from typing import Any

from spark_connect_rt.api.plugin_modules import ROOT
from spark_connect_rt.base.optional_package import optional_module
from spark_connect_rt.connectors.mirror.named_class import may_import

IMPORTING = threading.RLock()
"""Held while anything of these projects is imported."""
_ALWAYS = ("dlt.sources.", f"{ROOT}.")


def module_of_extra(name: str, extra: str, user: str) -> Any:
    """Return ``optional_module``. Raises ConnectError: the extra is not installed."""
    with IMPORTING:
        return optional_module(name, extra, user)


def named(module: str, name: str) -> Any:
    """Return what a module calls ``name``: an import runs code, so the worker's rule for named classes counts.

    What lies in ``plugin.path`` is named as ``connectrt_plugins.<folder>.<module>``, and allowed as dlt's own sources.
    Raises ImportError, AttributeError, ValueError: an empty name.
    """
    if not f"{module}.".startswith(_ALWAYS) and not may_import(f"{module}:{name}", module):
        raise ImportError(f"module {module} is not allowed on this worker. Add it to connectrt.plugins.modules")
    with IMPORTING:
        return getattr(importlib.import_module(module), name)
