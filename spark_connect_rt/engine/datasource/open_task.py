"""One task of a source connector, started and polled outside any worker."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from spark_connect_rt.api.records import Polled
from spark_connect_rt.api.task import SourceTask
from spark_connect_rt.engine.datasource.decoding import Decoder, Readers
from spark_connect_rt.engine.datasource.read_options import COLUMNS
from spark_connect_rt.engine.datasource.task_partition import TaskPartition, made_columns
from spark_connect_rt.engine.datasource.task_read import ReadContext, convert
from spark_connect_rt.engine.datasource.value_readers import SCHEMA, HeldValues, value_reader
from spark_connect_rt.engine.executor.hosting import load_class, load_clients
from spark_connect_rt.errors import RetriableError
from spark_connect_rt.records.pipeline.connector_converters import ConnectorConverters
from spark_connect_rt.records.pipeline.source_pipeline import SourcePipeline

log = logging.getLogger(__name__)

_RETRY_S = 0.1

BatchStep = Callable[[pa.RecordBatch], pa.RecordBatch]
MakeStep = Callable[[Readers], BatchStep]


class OpenTask:
    """A task that runs until ``close``, and the pipeline behind it."""

    def __init__(
        self,
        task: SourceTask,
        pipeline: SourcePipeline,
        decode: BatchStep = lambda batch: batch,
        held: Sequence[HeldValues] = (),
        columns: Collection[str] = tuple(COLUMNS),
    ) -> None:
        self._task = task
        self._pipeline = pipeline
        self._decode = decode
        self._held = held
        self._columns = columns

    def poll(self) -> list[pa.RecordBatch] | None:
        """Return what one poll brings, converted and decoded, without empty batches; None: it brought nothing.

        Raises DataError: a record failed and is not tolerated.
        """
        polled = self._polled()
        for held in self._held:
            held.forget()
        return [batch for batch in self._converted(polled) if batch.num_rows] if polled else None

    def has_more(self) -> bool:
        """Tell whether there is more, though a poll brought nothing."""
        return self._task.has_more()

    def idle_wait_ms(self) -> int:
        """Return how long the task wants to be left alone after a poll that brought nothing."""
        return self._task.idle_wait_ms()

    def close(self) -> None:
        """Stop the task and close its pipeline."""
        self._task.stop()
        self._pipeline.close()

    def _converted(self, polled: Sequence[Polled]) -> Iterator[pa.RecordBatch]:
        return map(self._decode, convert(self._pipeline, polled, self._columns))

    def _polled(self) -> Sequence[Polled]:
        try:
            return self._task.poll() or ()
        except RetriableError as error:
            log.warning("poll will be retried: %s", error)
            time.sleep(_RETRY_S)
            return ()


def open_task(partition: TaskPartition, batch_step: MakeStep | None = None, *, also: Sequence[str] = ()) -> OpenTask:
    """Start a task; what it polls is decoded as the partition says, or goes another step. Raises what it does.

    ``also``: columns that its batches have to have, whether the read has them or not.
    """
    clients = load_clients(partition.clients)
    config = clients.resolve(partition.config, partition.config)
    held: dict[str, Any] = {rule.column: HeldValues() for rule in partition.decodes if rule.format == SCHEMA}
    readers = {rule.column: value_reader(rule, config, clients, held.get(rule.column)) for rule in partition.decodes}
    converters = replace(ConnectorConverters.from_config(config, config, clients.plugin), **held)
    task: SourceTask = load_class(partition.task_class)()
    context = task.context = ReadContext(partition.starting)
    pipeline = context.pipeline = SourcePipeline.from_config(config, config, clients.plugin, converters=converters)
    tolerate = config.get("errors.tolerance", "").lower() == "all"
    step = batch_step(readers) if batch_step else Decoder(readers, partition.kinds, tolerate=tolerate).decode
    opened = OpenTask(task, pipeline, step, tuple(held.values()), made_columns(partition, also))
    try:
        task.start(clients.resolve(partition.task_config, partition.config))
    except BaseException:
        opened.close()
        raise
    return opened
