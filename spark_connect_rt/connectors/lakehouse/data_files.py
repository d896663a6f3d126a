"""Parquet data files and position delete files, with what Iceberg keeps of each. Signatures first, the parts follow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import fs

Positions = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class PartitionField:
    """One field of a partition spec: source column (dotted path), transform (`bucket[16]`), name."""

    source: str
    transform: str
    name: str


@dataclass(frozen=True, slots=True)
class FileSettings:
    """How files are written. `metrics`: per field id `none`, `counts`, `truncate(16)` or `full`."""

    codec: str = "zstd"
    level: int | None = None
    target_bytes: int = 128 << 20
    row_group_bytes: int = 32 << 20
    default_metrics: str = "truncate(16)"
    metrics: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file that no commit names yet. Maps are by field id, bounds in Iceberg's single-value form.

    `partition` has one value a partition field, in Iceberg's internal form (days, microseconds as int). `source_rows`
    are the rows of the given table, in the file's order; of delete files None.
    """

    path: str
    rows: int
    size: int
    partition: tuple[Any, ...] = ()
    column_sizes: Mapping[int, int] = field(default_factory=dict)
    value_counts: Mapping[int, int] = field(default_factory=dict)
    null_counts: Mapping[int, int] = field(default_factory=dict)
    nan_counts: Mapping[int, int] = field(default_factory=dict)
    lower_bounds: Mapping[int, bytes] = field(default_factory=dict)
    upper_bounds: Mapping[int, bytes] = field(default_factory=dict)
    split_offsets: tuple[int, ...] = ()
    source_rows: Positions | None = None


@dataclass(frozen=True, slots=True)
class FileTarget:
    """Where files lie: `folder` is a URI, whose file system is `files`; `new_id` gives unique texts for names."""

    files: fs.FileSystem
    folder: str
    new_id: Callable[[], str]


def write_data_files(
    rows: pa.Table, partitioning: Sequence[PartitionField], target: FileTarget, settings: FileSettings
) -> list[WrittenFile]:
    """Write rows, whose schema has field ids (`PARQUET:field_id`), to files of one partition each, one open at a time."""
    raise NotImplementedError


def write_position_deletes(
    dead_rows: Mapping[str, Positions], partition: tuple[Any, ...], target: FileTarget, settings: FileSettings
) -> WrittenFile:
    """Write the dead rows (data file's URI -> row numbers) of one partition to one delete file."""
    raise NotImplementedError


def partition_values(values: pa.Array, transform: str) -> pa.Array:
    """Return the transform of each value: Iceberg's result type, null for null."""
    raise NotImplementedError
