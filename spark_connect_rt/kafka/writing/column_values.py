"""What is sent to one partition, and where it lies then. Values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from spark_connect_rt.kafka.records.varint_columns import Numbers


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of one partition."""

    columns: pa.RecordBatch
    sizes: Numbers
    now_ms: int
    until_s: float

    @property
    def size(self) -> int:
        """Return how many bytes they take in a batch at most."""
        return int(self.sizes.sum())

    def slice(self, first: int, end: int | None = None) -> Rows:
        """Return those from ``first`` to before ``end``."""
        columns = self.columns.slice(first, None if end is None else end - first)
        return Rows(columns, self.sizes[first:end], self.now_ms, self.until_s)


class Written(NamedTuple):
    """Where the first record of a batch lies."""

    offset: int
    appended_ms: int | None = None  # the broker's timestamp for all of them; None: their own are kept
