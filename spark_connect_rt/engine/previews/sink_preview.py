"""Records of a sink's topics as it would get them: read without a group, through its converters and transformations.

Given to ``SinkTask.preview_put`` where that was asked for, which takes them back. Nothing is committed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from spark_connect_rt.api.records import SinkRecord
from spark_connect_rt.api.task import SinkTask
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.engine.executor.hosting import load_class
from spark_connect_rt.engine.executor.sink_context import WorkerSinkTaskContext
from spark_connect_rt.engine.executor.task_meter import MeteredPluginMetrics, TaskMeter
from spark_connect_rt.engine.previews.model import Ended
from spark_connect_rt.engine.previews.shown_records import Collected, Say, Tree
from spark_connect_rt.engine.previews.stage_walk import PUT, StageWalk, Walked, failed
from spark_connect_rt.engine.task_runner import TaskLaunch
from spark_connect_rt.errors import ConnectError
from spark_connect_rt.kafka.executor_clients import BatchConsumer, ExecutorClients
from spark_connect_rt.records.pipeline.sink_pipeline import rows_of

_POLL_MS = 500
_COMMITS = ("group.id", "group.instance.id", "enable.auto.commit")


def consumer_config(properties: Mapping[str, str]) -> dict[str, str]:
    """Return a sink's consumer properties for reading without its group. Pure."""
    kept = {name: value for name, value in properties.items() if name not in _COMMITS}
    name = f"{properties.get('client.id') or 'connector'}-preview"
    # librdkafka wants a group's id, which nothing is asked or committed with; no topic is made by asking for it.
    group = {"group.id": name, "enable.auto.commit": "false", "allow.auto.create.topics": "false"}
    return kept | group | {"client.id": name}


def preview_sink(
    launch: TaskLaunch,
    positions: Sequence[tuple[str, int, int]],
    clients: ExecutorClients,
    collected: Collected,
    say: Say,
    *,
    put: bool,
) -> Ended:
    """Read from these positions (-1 beginning, -2 end) on; return why it ended. Raises ConnectError."""
    config = clients.resolve(launch.connector_config, launch.worker_config)
    walk = StageWalk(config, clients.resolve(launch.worker_config, launch.worker_config), clients.plugin)
    starts = {TopicPartition(topic, number): offset for topic, number, offset in positions}
    putting = _Putting(launch, clients, walk, frozenset(starts), say) if put else None
    ended: Ended | None = None
    consumer = clients.consumer(clients.resolve(consumer_config(launch.client_config), launch.worker_config))
    try:
        say("reading the topics")
        consumer.assign(starts)
        walked: list[Walked] = []
        ended = _read(consumer, starts, walk, collected, walked if putting else None)
        if putting is not None:
            putting.put(walked)
            for previewed in walked:
                collected.add(previewed.stages)
        return ended
    finally:
        consumer.close()
        if putting is not None:
            putting.close(ended)
        walk.close()


def _read(
    consumer: BatchConsumer,
    starts: Mapping[TopicPartition, int],
    walk: StageWalk,
    collected: Collected,
    held: list[Walked] | None,
) -> Ended:
    """Read until a limit, or to where the logs ended at the beginning; ``held`` takes records that are to be put."""
    ends = consumer.end_offsets(list(starts))
    while True:
        full = collected.full
        left = collected.records_left - len(held or ())
        if full is not None or left <= 0:
            return full or Ended.RECORDS
        if all(consumer.position(partition) >= end for partition, end in ends.items()):
            return Ended.NOTHING_MORE
        batch = consumer.poll(left, int(min(_POLL_MS, 1 + collected.seconds_left * 1000)))
        for row in rows_of(batch) if batch is not None else ():
            walked = walk.of_sink(row)
            if held is None:
                collected.add(walked.stages)
            elif len(held) < collected.records_left:
                held.append(walked)


class _Putting:
    """A sink task that puts and takes back."""

    def __init__(
        self,
        launch: TaskLaunch,
        clients: ExecutorClients,
        walk: StageWalk,
        partitions: frozenset[TopicPartition],
        say: Say,
    ) -> None:
        """Start the task. Raises what it does."""
        self._walk, self._say, self._partitions = walk, say, partitions
        self._task: SinkTask = load_class(launch.task_class)()
        context = WorkerSinkTaskContext(MeteredPluginMetrics(TaskMeter("writer")))
        context.partitions = partitions
        context.previewed = True
        config = clients.resolve(launch.config, launch.worker_config)
        context.set_config(config)
        self._task.context = context
        say("starting the task")
        self._task.start(config)
        self._task.open(sorted(partitions))

    def put(self, walked: Sequence[Walked]) -> None:
        """Put what came through, all at once; if that fails, one by one, to find those to blame. Adds their stages."""
        given = [previewed for previewed in walked if isinstance(previewed.record, SinkRecord)]
        if not given:
            return
        self._say("putting")
        whole = self._try([previewed.record for previewed in given if isinstance(previewed.record, SinkRecord)])
        for previewed in given:
            assert isinstance(previewed.record, SinkRecord)
            alone = self._try([previewed.record]) if whole is not None and len(given) > 1 else whole
            previewed.stages.append(self._walk.put_stage(previewed.record) if alone is None else alone)
        if whole is not None and all("error" not in previewed.stages[-1] for previewed in given):
            raise ConnectError(f"together these records are rejected: {whole['error']}")

    def _try(self, records: Sequence[SinkRecord]) -> Tree | None:
        """Return the failed stage of a put, None: it went well."""
        try:
            self._task.preview_put(records)
        except Exception as error:  # noqa: BLE001 - plug-in code: shown
            return failed(PUT, error)
        return None

    def close(self, ended: Ended | None) -> None:
        """Close and stop the task."""
        self._say("stopping the task", ended)
        try:
            self._task.close(sorted(self._partitions))
        finally:
            self._task.stop()
