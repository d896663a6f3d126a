"""Config providers: they look up the values behind ``${alias:path:key}`` (Java ``ConfigProvider``)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Set


class ConfigProvider(ABC):
    """Made without arguments, then configured once. Any thread."""

    def configure(self, config: Mapping[str, str]) -> None:
        """Take the settings that stood under ``config.providers.<alias>.param.``. Raises BadConfigError."""

    @abstractmethod
    def get(self, path: str, keys: Set[str] | None = None) -> Mapping[str, str]:
        """Return the values at ``path``, only of ``keys`` when given; what is not there is left out.

        Raises BadConfigError: the path cannot be read. Its message never holds a value.
        """
