"""Drops every record; with a predicate, those it is for (Java ``Filter``)."""

from __future__ import annotations

from typing import TypeVar

from spark_connect_rt.api.records import B, SinkRecord, SourceRecord
from spark_connect_rt.api.transformation import Transformation

R = TypeVar("R", SourceRecord, SinkRecord)


class Filter(Transformation):
    """Drops every record that it is applied to: of use with a predicate (Java ``Filter``)."""

    def apply(self, record: R) -> R | None:
        """Return None: the record is dropped."""
        return None

    takes_headers = True

    def apply_batch(self, batch: B) -> B | None:
        """Return none of the records."""
        return batch.slice(0, 0)
