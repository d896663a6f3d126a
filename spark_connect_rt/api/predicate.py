"""Predicates: they decide whether a transformation applies to a record (Java ``Predicate``)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from spark_connect_rt.api.records import SinkRecord, SourceRecord
from spark_connect_rt.config.config_def import ConfigDef


class Predicate(ABC):
    """Made without arguments, then configured once."""

    def config_def(self) -> ConfigDef:
        """Return the settings, without the ``predicates.<alias>.`` prefix."""
        return ConfigDef()

    def configure(self, config: Mapping[str, str]) -> None:
        """Take the settings. Raises BadConfigError."""

    @abstractmethod
    def test(self, record: SourceRecord | SinkRecord) -> bool:
        """Answer whether the transformation applies."""

    def close(self) -> None:
        """Called once, at the end of the task."""
