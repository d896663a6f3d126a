"""Config providers look up the values of ``${alias:path:key}`` references (Java ``ConfigProvider``)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Set
from types import MappingProxyType


class ConfigData(dict[str, str]):
    """Values by their names, and how long they may be used (Java ``ConfigData``)."""

    def __init__(self, values: Mapping[str, str] = MappingProxyType({}), ttl_ms: int | None = None) -> None:
        """Take the values. ``ttl_ms`` None: they stay valid without a limit."""
        super().__init__(values)
        self.ttl_ms = ttl_ms


Resolve = Callable[[Mapping[str, str]], ConfigData]
"""Replaces every ``${provider:...}`` of a configuration."""


class ConfigProvider(ABC):
    """Made without arguments, then configured once. Any thread."""

    def configure(self, config: Mapping[str, str]) -> None:
        """Take the settings that stood under ``config.providers.<alias>.param.``. Raises BadConfigError."""

    @abstractmethod
    def get(self, path: str, keys: Set[str] | None = None) -> Mapping[str, str]:
        """Return the values at ``path``, only those of ``keys`` when given.

        The result leaves out keys that do not exist.

        After the ``ttl_ms`` of a returned ``ConfigData``, the worker restarts the connectors and tasks that use its
        values (``config.action.reload``).

        Raises BadConfigError: the path cannot be read. Its message never holds a value.
        """
