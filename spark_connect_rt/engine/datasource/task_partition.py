"""What an executor has to know of one task of a connector: a partition of a read.

Quick to import, as all that plans a read has to be: each query plans in a process of its own
(docs/explanation/spark_costs.md). What reads is imported where it reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from spark_connect_rt.engine.datasource.read_options import COLUMNS, Decode, ReadLimits, SourceOffset
from spark_connect_rt.engine.datasource.stream_position import POSITION_COLUMNS


@dataclass
class TaskPartition(InputPartition):  # type: ignore[misc]
    """One task of the connector; settings are raw, secrets are looked up where the task runs."""

    task_class: str
    task_config: Mapping[str, str]
    config: Mapping[str, str]
    clients: str
    limits: ReadLimits
    starting: tuple[SourceOffset, ...]
    decodes: tuple[Decode, ...] = ()
    kinds: Mapping[str, pa.DataType] = field(default_factory=dict)  # of the decoded columns
    columns: tuple[str, ...] = tuple(COLUMNS)  # of the read; its batches may have more


def made_columns(partition: TaskPartition, also: Sequence[str] = ()) -> frozenset[str]:
    """Return the columns that a task's batches have: those of the read, and what decoding and limits look at."""
    decoded = {"topic", *POSITION_COLUMNS, *(rule.column for rule in partition.decodes)} if partition.decodes else ()
    sized = ("key", "value") if partition.limits.max_bytes is not None else ()
    return frozenset({*partition.columns, *decoded, *sized, *also})
