"""Which client settings connectors may override (Java ``ConnectorClientConfigOverridePolicy``, KIP-458)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping


class ConnectorClientConfigOverridePolicy(ABC):
    """Made without arguments, configured once with the worker's configuration. Any thread."""

    def configure(self, config: Mapping[str, str]) -> None:
        """Take the worker's configuration. Raises BadConfigError."""

    @abstractmethod
    def problems(self, connector_config: Mapping[str, str]) -> Mapping[str, str]:
        """Return a complaint for each ``producer.override.`` (consumer, admin) setting that is not allowed."""
