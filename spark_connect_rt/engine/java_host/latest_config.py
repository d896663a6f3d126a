"""Answers a hosted task that asks its context for its configuration: references are replaced once more.

As in Java, where ``configs()`` of both contexts shows a secret that has changed since the task was started.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from spark_connect_rt.config.secrets import references

log = logging.getLogger(__name__)


def refers(config: Mapping[str, str]) -> bool:
    """Return whether a configuration has references: without them it is what it was at the start."""
    return any(references(value) for value in config.values())


def latest_config(resolved: Callable[[], Mapping[str, str]]) -> Mapping[str, Any]:
    """Return the answer: {"config": {...}}, or {"error": ...} where a provider refuses: the task's call raises it."""
    try:
        return {"config": dict(resolved())}
    except BaseException as error:  # noqa: BLE001 - a provider is plug-in code
        log.warning("the references of a task's configuration cannot be resolved: %s", error)
        return {"error": str(error)}
