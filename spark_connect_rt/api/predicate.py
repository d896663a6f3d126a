"""Predicates: they decide whether a transformation applies to a record (Java ``Predicate``)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from spark_connect_rt.api.records import B, SinkRecord, SourceRecord
from spark_connect_rt.config.config_def import ConfigDef

if TYPE_CHECKING:
    import pyarrow as pa


class Predicate(ABC):
    """Made without arguments, then configured once."""

    takes_headers: ClassVar[bool] = False
    """Whether ``test_batch`` takes batches with headers, too (``headers``, ``more_headers``); else rows are asked."""

    def config_def(self) -> ConfigDef:
        """Return the settings, without the ``predicates.<alias>.`` prefix."""
        return ConfigDef()

    def configure(self, config: Mapping[str, str]) -> None:
        """Take the settings. Raises BadConfigError."""

    @abstractmethod
    def test(self, record: SourceRecord | SinkRecord) -> bool:
        """Answer whether the transformation applies."""

    def test_all(self, records: Sequence[SourceRecord | SinkRecord]) -> list[bool | Exception]:
        """Return the answer for each record, or its error. Called only where many records come at once."""
        return [_answer(self, record) for record in records]

    def test_batch(self, batch: B) -> pa.BooleanArray | bool | None:
        """Return the answer for each record of a batch, or one for all; None: ask row by row."""
        return None

    def close(self) -> None:
        """Called once, at the end of the task."""


def _answer(predicate: Predicate, record: SourceRecord | SinkRecord) -> bool | Exception:
    try:
        return predicate.test(record)
    except Exception as error:  # noqa: BLE001 - plug-in code: an error of any class fails only this record
        return error
