"""Policies and filters by the class name that a configuration gives: Java's for the bundled ones, else a Python one."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Protocol

from spark_connect_rt.errors import BadConfigError

JAVA_PACKAGE = "org.apache.kafka.connect.mirror"


class Configured(Protocol):
    """A policy or filter: made without arguments, then given the connector's whole configuration."""

    def configure(self, config: Mapping[str, str]) -> None:
        """Take what it needs. Raises BadConfigError."""


def class_named(setting: str, name: str, bundled: Mapping[str, type[Any]]) -> type[Any]:
    """Return the class of ``setting``: a bundled one by Java's name, else ``package.module:Class`` or with a dot.

    Raises BadConfigError naming the setting: there is no such class.
    """
    if name in bundled:
        return bundled[name]
    module, _, wanted = name.partition(":") if ":" in name else name.rpartition(".")
    try:
        found: type[Any] = getattr(import_module(module), wanted)
    except (ImportError, AttributeError, ValueError) as error:
        ours = ", ".join(bundled)
        raise BadConfigError(
            {setting: [f"there is no Python class {name} ({error}); the bundled ones are {ours}"]}
        ) from error
    return found
