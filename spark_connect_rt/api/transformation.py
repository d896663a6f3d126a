"""Transformations: one record in, one or none out (Java ``Transformation``)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TypeVar

from spark_connect_rt.api.records import B, SinkRecord, SourceRecord
from spark_connect_rt.config.config_def import ConfigDef

R = TypeVar("R", SourceRecord, SinkRecord)


class Transformation(ABC):
    """Made without arguments, configured once. A changed record is a new one: ``dataclasses.replace``."""

    def config_def(self) -> ConfigDef:
        """Return the settings, without the ``transforms.<alias>.`` prefix."""
        return ConfigDef()

    def configure(self, config: Mapping[str, str]) -> None:
        """Take the settings. Raises BadConfigError."""

    @abstractmethod
    def apply(self, record: R) -> R | None:
        """Return the record to go on with, None to drop it. Raises DataError."""

    def apply_batch(self, batch: B) -> B | None:
        """Return a whole batch transformed, fewer records if some were dropped; None: it has to go row by row.

        What comes out must be what ``apply`` makes of each record. Raises nothing: rows find whom to blame.
        """
        return None

    def close(self) -> None:
        """Called once, at the end of the task."""
