"""Transformations: one record in, one or none out (Java ``Transformation``)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeVar

from spark_connect_rt.api.predicate import Predicate
from spark_connect_rt.api.records import B, SinkRecord, SourceRecord
from spark_connect_rt.config.config_def import ConfigDef

R = TypeVar("R", SourceRecord, SinkRecord)


@dataclass(frozen=True, slots=True)
class Refused:
    """A record that a step (its place among its neighbours) raised at."""

    step: int
    error: Exception


Applied = SourceRecord | SinkRecord | None | Refused
"""What became of a record: the one to go on with, None (dropped), or why not."""


class Together(Protocol):
    """Neighbouring steps of a chain that apply to many records at once, as they would to one after the other."""

    def prepare(self, *, sink: bool) -> None:
        """Get ready for such records. Raises BadConfigError."""

    def apply_all(self, records: Sequence[Any]) -> list[Applied]:
        """Return what became of each record. Raises ExternalError: no record is to blame."""

    def close(self) -> None:
        """Called once, at the end of the task."""


class Transformation(ABC):
    """Made without arguments, configured once. A changed record is a new one: ``dataclasses.replace``."""

    takes_headers: ClassVar[bool] = False
    """Whether ``apply_batch`` takes batches with headers, too (``headers``, ``more_headers``); else they go by rows."""

    def together(self) -> Callable[[Sequence[Any]], Together] | None:
        """Return what joins steps of a chain that follow each other and return the same function here, or None.

        Joined steps are given many records at once; ``apply`` is used only where one record comes alone.
        """
        return None

    def takes_predicate(self, predicate: Predicate) -> bool:
        """Tell whether ``together`` can ask that predicate itself."""
        return False

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
