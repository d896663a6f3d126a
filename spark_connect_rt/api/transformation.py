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
    """An error that a step raised for a record. ``step``: the position of the step among its neighbours."""

    step: int
    error: Exception


Applied = SourceRecord | SinkRecord | None | Refused
"""The result of a transformation: the record to continue with, None (dropped), or the error."""


class Together(Protocol):
    """Neighbouring steps of a chain that transform many records in one call, with the same result as one by one."""

    def prepare(self, *, sink: bool) -> None:
        """Initialize for sink records, or for source records. Raises BadConfigError."""

    def apply_all(self, records: Sequence[Any]) -> list[Applied]:
        """Return the result for each record. Raises ExternalError: the failure is not caused by a record."""

    def close(self) -> None:
        """Called once, at the end of the task."""


class Transformation(ABC):
    """One step of a chain (Java ``Transformation``): it changes a record or drops it.

    The worker creates it without arguments and configures it once. Return a changed copy: ``dataclasses.replace``.
    """

    takes_headers: ClassVar[bool] = False
    """Whether ``apply_batch`` also accepts batches with headers (``headers``, ``more_headers``).

    If not, they go by rows.
    """

    def together(self) -> Callable[[Sequence[Any]], Together] | None:
        """Return a function that joins neighbouring steps which return the same function, or None.

        Joined steps get many records at once. ``apply`` is called only for a record that comes alone.
        """
        return None

    def takes_predicate(self, predicate: Predicate) -> bool:
        """Return whether ``together`` can evaluate that predicate itself."""
        return False

    def config_def(self) -> ConfigDef:
        """Return the settings, without the ``transforms.<alias>.`` prefix."""
        return ConfigDef()

    def configure(self, config: Mapping[str, str]) -> None:
        """Take the settings. Raises BadConfigError."""

    @abstractmethod
    def apply(self, record: R) -> R | None:
        """Return the record to continue with, None to drop it. Raises DataError: the record cannot be transformed."""

    def apply_batch(self, batch: B) -> B | None:
        """Return a whole batch transformed, with fewer records if some were dropped. None: use ``apply`` for each row.

        The result must be equal to that of ``apply`` for each record. Raises nothing: return None, and the rows show
        which record is bad.
        """
        return None

    def close(self) -> None:
        """Called once, at the end of the task."""
