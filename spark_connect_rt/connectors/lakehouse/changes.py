"""Records -> changes of a table: upserts and deletes by key. Signatures first, the parts follow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import pyarrow as pa

from spark_connect_rt.api.records import SinkBatch, SinkRecord
from spark_connect_rt.connectors.lakehouse.connect_columns import ICEBERG_TYPES, TypeRules
from spark_connect_rt.errors import DataError

OP = "__op"
UPSERT, DELETE, TRUNCATE = "u", "d", "t"


class ChangeForm(Enum):
    """How the records of a topic describe changes."""

    PLAIN = "plain"
    """The value is the row. A record without a value deletes."""
    DEBEZIUM = "debezium"
    """The value is an envelope with `op`, `before` and `after`."""
    FLATTENED = "flattened"
    """As PLAIN, and `__deleted` or the operation's field says that a row is deleted (`ExtractNewRecordState`)."""


@dataclass(frozen=True, slots=True)
class ChangeRules:
    """How records become changes.

    `key_columns` empty: take the fields of the record's key. `upsert` False: rows are appended, keys do not matter.
    """

    form: ChangeForm = ChangeForm.PLAIN
    upsert: bool = True
    key_columns: tuple[str, ...] = ()
    op_field: str = "__op"
    types: TypeRules = ICEBERG_TYPES


@dataclass(frozen=True, slots=True)
class Refused:
    """A record that is not a change: its place among the records that were given, and the reason."""

    index: int
    error: DataError


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes of one topic partition in Kafka's order.

    Attributes:
        table: column `__op` (u, d, t), then the columns of the row. Of a `d` only key columns are set; of a `t`, none.
        offsets: of the record behind each change, int64. One record may be two changes (a key that changed).
        key_columns: names.
        refused: records to report one by one.
        ignored: how many records change nothing (messages, tombstones of rows that were deleted by key already).
    """

    table: pa.Table
    offsets: pa.Array
    key_columns: tuple[str, ...]
    refused: tuple[Refused, ...] = ()
    ignored: int = 0


def changes_of_batch(batch: SinkBatch, rules: ChangeRules) -> Changes | None:
    """Return the changes of columns; None: the records have to come to `changes_of_records` instead."""
    raise NotImplementedError


def changes_of_records(
    records: Sequence[SinkRecord], rules: ChangeRules, have: pa.Schema | None = None
) -> list[Changes]:
    """Return the changes of records of one topic partition, one `Changes` for each run of records of one schema.

    `have` is the table's schema: types of schemaless values follow it.
    """
    raise NotImplementedError
