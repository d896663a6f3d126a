"""The types of keys and values that are to be decoded, by the first records of a read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from spark_connect_rt.engine.datasource.open_task import open_task, poll_rows
from spark_connect_rt.engine.datasource.read_options import Decode
from spark_connect_rt.engine.datasource.stream_position import TaskPartition
from spark_connect_rt.engine.datasource.value_readers import Readers
from spark_connect_rt.errors import BadConfigError, DataError
from spark_connect_rt.records.pipeline.arrow_values import common_type

SAMPLE_RECORDS = 1_000


class TypeSample:
    """The column types that sampled records show."""

    def __init__(self) -> None:
        self._readers: Readers = {}
        self._found: dict[str, list[pa.DataType]] = {}
        self._problems: dict[str, DataError] = {}

    def of(self, readers: Readers) -> TypeSample:
        """Look with these readers from now on."""
        self._readers = readers
        return self

    def look(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Take note of a batch, and return it."""
        for name, reader in self._readers.items():
            try:
                kind = reader.type_of(batch.column("topic").to_pylist(), batch.column(name))
            except DataError as error:
                self._problems[name] = error
                continue
            found = self._found.setdefault(name, [])
            if kind is not None and kind not in found:
                found.append(kind)
        return batch

    def shows(self, decodes: Sequence[Decode]) -> bool:
        """Return whether there is a type for each column."""
        return all(self._found.get(rule.column) or rule.column in self._problems for rule in decodes)

    def kinds(self, decodes: Sequence[Decode]) -> dict[str, pa.DataType]:
        """Return the type of each column. Raises BadConfigError: the sample does not show it."""
        problems, kinds = {}, {}
        for rule in decodes:
            found = self._found.get(rule.column)
            try:
                if rule.column in self._problems:
                    raise self._problems[rule.column]
                if not found:
                    raise DataError(f"no record shows the type of the {rule.column}")
                kinds[rule.column] = common_type(found)
            except DataError as error:
                example = "'struct<id: bigint, name: string>'"
                problems[rule.option] = [f"{error}. Set the type with {rule.type_option}, for example {example}"]
        if problems:
            raise BadConfigError(problems)
        return kinds


def sampled_kinds(partitions: Sequence[TaskPartition], decodes: Sequence[Decode]) -> dict[str, pa.DataType]:
    """Return the types of columns by the first records, task by task until there are some.

    Raises BadConfigError if the records do not show a type, and everything that a task raises.
    """
    sample = TypeSample()
    for partition in partitions:
        task = open_task(replace(partition, decodes=tuple(decodes)), lambda readers: sample.of(readers).look)
        try:
            for _ in poll_rows(task, replace(partition.limits, max_records=SAMPLE_RECORDS, max_bytes=None)):
                pass
        finally:
            task.close()
        if sample.shows(decodes):
            break
    return sample.kinds(decodes)
