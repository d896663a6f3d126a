"""Keys and values as typed columns (option ``decode``), batch by batch.

Owns what happens to a value that cannot be read or does not fit its column: the read fails and names it, or leaves its
row out where ``errors.tolerance`` is all.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

import pyarrow as pa

from spark_connect_rt.engine.datasource.value_readers import ValueReader
from spark_connect_rt.errors import DataError

log = logging.getLogger(__name__)

Readers = Mapping[str, ValueReader]
"""By column: key, value."""
PLACE = ("topic", "source_partition", "source_offset")


class Decoder:
    """Turns the columns of batches into typed ones."""

    def __init__(self, readers: Readers, kinds: Mapping[str, pa.DataType], *, tolerate: bool) -> None:
        self._readers = readers
        self._kinds = kinds
        self._tolerate = tolerate

    def decode(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch with its columns decoded. Raises DataError naming the record."""
        for name, reader in self._readers.items():
            try:
                decoded = reader.column(batch.column("topic").to_pylist(), batch.column(name), self._kinds[name])
            except DataError:
                batch = self._readable(name, reader, batch)
                decoded = reader.column(batch.column("topic").to_pylist(), batch.column(name), self._kinds[name])
            batch = batch.set_column(batch.schema.get_field_index(name), name, decoded)
        return batch

    def _readable(self, name: str, reader: ValueReader, batch: pa.RecordBatch) -> pa.RecordBatch:
        mask = []
        for at in range(batch.num_rows):
            row = batch.slice(at, 1)
            try:
                reader.column(row.column("topic").to_pylist(), row.column(name), self._kinds[name])
                mask.append(True)
            except DataError as error:
                where = ", ".join(f"{column} {row.column(column)[0]}" for column in PLACE)
                if not self._tolerate:
                    raise DataError(f"the {name} of the record of {where}: {error}") from None
                log.warning("skipped the record of %s: its %s: %s", where, name, error)
                mask.append(False)
        return batch.filter(pa.array(mask, pa.bool_()))
