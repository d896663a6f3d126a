"""When a source that is read in passes is read next: its interval, and waits after failures."""

from __future__ import annotations

import importlib
import logging
import math
import random
import threading
from collections.abc import Callable
from typing import Any

from spark_connect_rt.api.plugin_modules import ROOT
from spark_connect_rt.base.backoff import Backoff
from spark_connect_rt.base.optional_package import optional_module
from spark_connect_rt.connectors.mirror.named_class import may_import
from spark_connect_rt.errors import ConnectError

log = logging.getLogger(__name__)
ONCE = -1
FAILED_TOO_OFTEN = "CRT-1143"
_LONGEST_WAIT_MS = 60_000


class PassTimes:
    """The times of one unit of work. All in ms of ``now_ms``, the wall clock."""

    def __init__(
        self,
        interval_ms: int,
        retries: int,
        backoff_ms: int,
        now_ms: Callable[[], float],
        chance: Callable[[], float] = random.random,
    ) -> None:
        """``interval_ms``: from the end of a pass to the next; ONCE: there is no next."""
        self._chance = chance
        self.now_ms = now_ms
        self._interval_ms, self._retries, self._backoff = interval_ms, retries, Backoff(backoff_ms, _LONGEST_WAIT_MS)
        self._failures = 0
        self.due_ms = 0.0
        """When to read next, in ms of ``now_ms``."""

    @property
    def due(self) -> bool:
        """Return whether the next pass may begin."""
        return self.now_ms() >= self.due_ms

    def ended(self, at_ms: float | None = None) -> None:
        """A pass ended now, or at a time that an offset remembers."""
        ended_ms = self.now_ms() if at_ms is None else at_ms
        self.due_ms = math.inf if self._interval_ms == ONCE else ended_ms + self._interval_ms

    def succeeded(self) -> None:
        """Note a successful read: forget earlier failures."""
        self._failures = 0

    def failed(self, name: str, error: Exception, final: bool = False) -> None:
        """Wait before the next try. Raises ConnectError: ``final``, or too often in a row."""
        self._failures += 1
        if final or self._failures > self._retries:
            message = f"{name} failed {self._failures} times in a row: {error}"
            raise ConnectError(message, code=FAILED_TOO_OFTEN) from error
        wait_ms = self._backoff.wait(self._failures, self._chance())
        log.warning("%s failed, retrying in %d ms: %s", name, wait_ms, error)
        self.due_ms = self.now_ms() + wait_ms


# Imports of other projects' modules, one at a time in a process.
#
# Tasks start, and configurations are checked, in threads. If two of them import large packages with cyclic imports,
# Python gives one of them a partly initialized module instead of waiting forever.


IMPORTING = threading.RLock()
"""Held while anything of these projects is imported."""
_ALWAYS = ("dlt.sources.", f"{ROOT}.")


def module_of_extra(name: str, extra: str, user: str) -> Any:
    """Return ``optional_module``. Raises ConnectError: the extra is not installed."""
    with IMPORTING:
        return optional_module(name, extra, user)


def named(module: str, name: str) -> Any:
    """Return the object that a module calls ``name``.

    An import runs code, so the worker's rule for named classes applies.

    Modules in ``plugin.path`` are named as ``connectrt_plugins.<folder>.<module>``, and allowed as dlt's own sources.
    Raises ImportError, AttributeError, ValueError: an empty name.
    """
    if not f"{module}.".startswith(_ALWAYS) and not may_import(f"{module}:{name}", module):
        raise ImportError(f"module {module} is not allowed on this worker. Add it to connectrt.plugins.modules")
    with IMPORTING:
        return getattr(importlib.import_module(module), name)
