"""Imports of other projects' modules, one at a time in a process.

Tasks start, and configurations are checked, in threads. Where two of them import large packages that need each other's
parts, Python gives one of them a module that is half made rather than wait for ever.
"""

from __future__ import annotations

import importlib
import threading
from typing import Any

from spark_connect_rt.optional_package import optional_module

IMPORTING = threading.RLock()
"""Held while anything of these projects is imported."""


def module_of_extra(name: str, extra: str, user: str) -> Any:
    """Return ``optional_module``. Raises ConnectError: the extra is not installed."""
    with IMPORTING:
        return optional_module(name, extra, user)


def named(module: str, name: str) -> Any:
    """Return what a module calls ``name``. Raises ImportError, AttributeError, ValueError: an empty name."""
    with IMPORTING:
        return getattr(importlib.import_module(module), name)
