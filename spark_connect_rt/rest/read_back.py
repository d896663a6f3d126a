"""Configurations and offsets in the order in which Java prints those that it read back: that of its HashMap."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from spark_connect_rt.base.java_hash_order import in_java_hash_order
from spark_connect_rt.runtime.values import ConnectorInfo, ConnectorOffset, TaskInfo


def read_back(found: ConnectorInfo) -> ConnectorInfo:
    """Return a connector with its configuration in that order; the answer to a write keeps the writer's."""
    return replace(found, config=in_java_hash_order(found.config))


def read_back_task(found: TaskInfo) -> TaskInfo:
    """Return a task with its configuration in that order."""
    return TaskInfo(found.id, in_java_hash_order(found.config))


def read_back_offset(found: ConnectorOffset) -> ConnectorOffset:
    """Return partition and offset with their fields in that order."""
    return ConnectorOffset(_ordered(found.partition), _ordered(found.offset))


def _ordered(values: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    return None if values is None else in_java_hash_order(values)
