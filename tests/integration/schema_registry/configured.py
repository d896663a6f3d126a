"""Converters of a test's registry."""

from __future__ import annotations

from typing import TypeVar

from spark_connect_rt.records.registry.registry_converter import RegistryConverter
from tests.support.schema_registry import SchemaRegistry

C = TypeVar("C", bound=RegistryConverter)  # type: ignore[type-arg]


def configured(made: C, registry: SchemaRegistry, is_key: bool = False, **more: str) -> C:
    """Return the converter, configured; ``value_subject_name_strategy`` is ``value.subject.name.strategy``."""
    given = {name.replace("_", "."): value for name, value in more.items()}
    made.configure({"schema.registry.url": registry.url, "max.retries": "0", **given}, is_key)
    return made
