"""What the worker tells the herder: facts put into its inbox, never decisions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LifeChanged:
    """A connector or task started, ended, failed: look at the worker again. ``what`` is for the story."""

    what: str


@dataclass(frozen=True, slots=True)
class ReconfigurationRequested:
    """A connector runs (again) or asked for it: its task configurations are to be generated."""

    connector: str


@dataclass(frozen=True, slots=True)
class TaskConfigsGenerated:
    """The connector answered; ``configs`` are raw and complete, made from ``connector_config``."""

    connector: str
    connector_config: Mapping[str, str]
    configs: tuple[Mapping[str, str], ...]


@dataclass(frozen=True, slots=True)
class TaskConfigsFailed:
    """The connector could not answer; tried again later."""

    connector: str
    error: str


WorkerEvent = LifeChanged | ReconfigurationRequested | TaskConfigsGenerated | TaskConfigsFailed
Notify = Callable[[WorkerEvent], None]
"""Called from any thread of the worker; quick; raises nothing."""
