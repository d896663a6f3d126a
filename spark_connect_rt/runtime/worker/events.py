"""Events from the worker to the herder: facts put into its inbox, never decisions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.config.stored_config import StoredConfig


@dataclass(frozen=True, slots=True)
class LifeChanged:
    """A connector or task started, ended, failed: look at the worker again. ``what`` is for the event log."""

    what: str


@dataclass(frozen=True, slots=True)
class ReconfigurationRequested:
    """A connector runs (again) or asked for it: its task configurations are to be generated."""

    connector: str


@dataclass(frozen=True, slots=True)
class TaskConfigsGenerated:
    """The connector answered; ``configs`` are complete, their references unresolved, made from ``connector_config``."""

    connector: str
    connector_config: StoredConfig
    configs: tuple[Mapping[str, str], ...]


@dataclass(frozen=True, slots=True)
class TaskConfigsFailed:
    """The connector could not answer; tried again later."""

    connector: str
    error: str


@dataclass(frozen=True, slots=True)
class ReloadDue:
    """A value of a config provider that a run was made from may not be used any longer; ``key`` is the run's."""

    item: str | ConnectorTaskId
    key: object


WorkerEvent = LifeChanged | ReconfigurationRequested | TaskConfigsGenerated | TaskConfigsFailed | ReloadDue
Notify = Callable[[WorkerEvent], None]
"""Called from any thread of the worker; quick; raises nothing."""
