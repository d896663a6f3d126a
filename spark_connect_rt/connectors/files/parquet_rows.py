"""The rows of one Parquet file in order, by the batch; the row behind each batch is where to go on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from spark_connect_rt.api.data.schema import Schema
from spark_connect_rt.connectors.files.file_problems import content_problem
from spark_connect_rt.errors import DataError
from spark_connect_rt.records.pipeline.arrow_values import RowColumns

BATCH_ROWS = 8_192


class ParquetRows:
    """Reads one file that no one changes. ``row`` counts the rows handed on."""

    def __init__(self, path: str, row: int = 0) -> None:
        """Open it. Raises DataError: it is no Parquet file, or a column has no Connect form;
        RetriableError: it cannot be read just now."""
        self.row = row
        self._path = path
        try:
            self._file: Any = pq.ParquetFile(path)
            self._columns = RowColumns(self._file.schema_arrow)
        except OSError as error:
            raise content_problem(path, "cannot be read", error) from error
        except (pa.ArrowException, DataError) as error:
            raise DataError(f"file {path}: {error}") from None
        self._batches = self._from(row)

    @property
    def schema(self) -> Schema:
        """The Connect schema of a row."""
        return self._columns.schema

    def next(self) -> pa.StructArray | None:
        """Return the next rows; None: that was all. Raises DataError: the rest of the file is unreadable."""
        try:
            batch = next(self._batches, None)
            rows = None if batch is None else self._columns.structs(batch)
        except OSError as error:
            raise content_problem(self._path, f"after row {self.row} cannot be read", error) from error
        except pa.ArrowException as error:
            raise DataError(f"file {self._path} after row {self.row}: {error}") from None
        if rows is not None:
            self.row += len(rows)
        return rows

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _from(self, row: int) -> Iterator[pa.RecordBatch]:
        """Yield the batches behind ``row``; row groups before it are not read."""
        metadata, skip = self._file.metadata, row
        groups: list[int] = []
        for group in range(metadata.num_row_groups):
            group_rows = metadata.row_group(group).num_rows
            if groups or skip < group_rows:
                groups.append(group)
            else:
                skip -= group_rows
        for batch in self._file.iter_batches(BATCH_ROWS, row_groups=groups) if groups else ():
            if skip >= batch.num_rows:
                skip -= batch.num_rows
                continue
            yield batch.slice(skip)
            skip = 0
