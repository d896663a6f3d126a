"""How one batch of rows gets into its table: staged files (exactly once), Delta (exactly once), or plain append.

Owns: the write itself and what the table remembers of offsets. Knows nothing of tasks, groups or threads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Protocol

from spark_connect_rt.base.ids import ConnectorTaskId, TopicPartition
from spark_connect_rt.config.config_def import prefixed
from spark_connect_rt.config.spark_connectors import OPTION_PREFIX
from spark_connect_rt.engine.formats.table_files import Declared, TableFiles

FILE_FORMATS = ("parquet", "json", "csv", "orc")
DELTA_WRITER = "connectrt.writer"
DELTA_BATCH = "connectrt.batch"
DELTA_FORGOTTEN = "connectrt.forgotten"
DELTA_COMMITTED = "connectrt.committed"
Ranges = Mapping[TopicPartition, tuple[int, int]]
TopicIds = Mapping[TopicPartition, str]
NO_IDS: TopicIds = MappingProxyType({})


class TableWriter(Protocol):
    """Appends batches to one table."""

    def recover(self) -> Declared:
        """Finish what a crash left half done; return the ranges the table holds that may not be committed."""

    def append(self, frame: Any, batch: str, ranges: Ranges, topic_ids: TopicIds = NO_IDS) -> None:
        """Write the rows of ``frame``; when it returns they are in the table. ``topic_ids``: of the ranges' topics."""

    def holds(self, batch: str) -> bool:
        """Return whether the table has a batch whose ``append`` raised; one that is half there is finished first."""

    def forget(self, ranges: Ranges | None = None) -> None:
        """Take note that offsets are committed in the group, so that the memory of them is no longer needed.

        ``ranges``: those that the group holds; None: all that this writer appended.
        """

    def forget_all(self) -> None:
        """Remember nothing of any task of this connector; after ``recover``, and while no task of it runs."""


class FileTableWriter:
    """Parquet, JSON, CSV, ORC under a path: staged, declared, moved."""

    def __init__(
        self, spark: Any, format_name: str, path: str, task: ConnectorTaskId, options: Mapping[str, str]
    ) -> None:
        self._files = TableFiles(spark, path, task.connector, task.task)
        self._task = str(task.task)
        self._format = format_name
        self._options = dict(options)

    def recover(self) -> Declared:
        """Move the files of a declared batch, delete staged ones that never were declared."""
        declared = self._files.declared()
        own = declared.get(self._task)
        self._files.drop_leftovers(own.staging if own else None)
        ranges: dict[TopicPartition, tuple[int, int]] = {}
        topic_ids: dict[TopicPartition, str] = {}
        for task, batch in declared.items():
            self._files.finish(batch, task)
            ranges.update(batch.ranges)
            topic_ids.update(batch.topic_ids)
        return Declared("", ranges, topic_ids)

    def append(self, frame: Any, batch: str, ranges: Ranges, topic_ids: TopicIds = NO_IDS) -> None:
        """Stage the files, declare them in the manifest, then move them to the table."""
        frame.write.format(self._format).options(**self._options).mode("overwrite").save(
            self._files.staging_path(batch)
        )
        declared = Declared(batch, ranges, topic_ids)
        self._files.declare(declared)
        self._files.finish(declared)

    def holds(self, batch: str) -> bool:
        """Once it is declared; then its files are moved."""
        declared = self._files.own()
        if declared is None or declared.staging != batch:
            return False
        self._files.finish(declared)
        return True

    def forget(self, ranges: Ranges | None = None) -> None:
        """Drop the manifest of this task."""
        self._files.forget()

    def forget_all(self) -> None:
        """Drop the manifests of all tasks."""
        self._files.forget_all()


class DeltaTableWriter:
    """Delta through the ``deltalake`` package: one commit adds the rows and, in its metadata, their offsets.

    The rows of a batch pass through the driver as Arrow; ``batch.max.records`` bounds them.
    """

    def __init__(self, path: str, connector: str) -> None:
        self._path = path.removeprefix("file://")
        self._writer = connector
        self._appended = Declared("", {})

    def recover(self) -> Declared:
        """Return the ranges that this connector's newest commits name, without those that the group was seen to hold.

        Another task may have appended before this one was committed, so only what ends there is left out.
        """
        found: dict[TopicPartition, tuple[int, int]] = {}
        topic_ids: dict[TopicPartition, str] = {}
        committed: dict[TopicPartition, int] = {}
        for batch, is_committed in self._batches():
            for place, (start, end) in batch.ranges.items():
                topic_id = batch.topic_ids.get(place)
                if place in found or (place in topic_ids and topic_ids[place] != topic_id):
                    continue  # older than what is known, or of an older topic
                if topic_id is not None:
                    topic_ids[place] = topic_id
                if is_committed:
                    committed[place] = max(end, committed.get(place, 0))
                elif end > committed.get(place, 0):
                    found[place] = max(start, committed.get(place, 0)), end
        return Declared("", found, {place: topic_ids[place] for place in found if place in topic_ids})

    def _batches(self) -> Iterator[tuple[Declared, bool]]:
        """Yield this connector's declarations, newest first, and whether each says that its ranges are committed.

        Nothing from before the last time that its offsets were altered: that does not count.
        """
        from deltalake import DeltaTable

        if not DeltaTable.is_deltatable(self._path):
            return
        for commit in DeltaTable(self._path).history(limit=100):
            if commit.get(DELTA_WRITER) == self._writer:
                if DELTA_FORGOTTEN in commit:
                    return
                is_committed = DELTA_COMMITTED in commit
                yield Declared.from_json(commit[DELTA_COMMITTED if is_committed else DELTA_BATCH]), is_committed

    def append(self, frame: Any, batch: str, ranges: Ranges, topic_ids: TopicIds = NO_IDS) -> None:
        """Append the batch as one Delta commit that carries the writer's id and the batch's offsets."""
        from deltalake import CommitProperties, write_deltalake

        declared = Declared(batch, ranges, topic_ids)
        metadata = {DELTA_WRITER: self._writer, DELTA_BATCH: declared.to_json()}
        write_deltalake(
            self._path,
            frame.toArrow(),
            mode="append",
            schema_mode="merge",
            commit_properties=CommitProperties(custom_metadata=metadata),
        )
        self._appended = declared

    def holds(self, batch: str) -> bool:
        """Whether a commit names it."""
        return any(declared.staging == batch for declared, _ in self._batches())

    def forget(self, ranges: Ranges | None = None) -> None:
        """Commit no rows, and in the metadata which ranges the group holds: a later reset by its owner is obeyed."""
        committed = self._appended.ranges if ranges is None else ranges
        if committed:
            topic_ids = {place: topic_id for place, topic_id in self._appended.topic_ids.items() if place in committed}
            self._note(DELTA_COMMITTED, Declared("", committed, topic_ids).to_json())

    def forget_all(self) -> None:
        """Commit no rows, and in the metadata that older commits' offsets do not count."""
        self._note(DELTA_FORGOTTEN, "true")

    def _note(self, name: str, text: str) -> None:
        from deltalake import CommitProperties, DeltaTable, write_deltalake

        if not DeltaTable.is_deltatable(self._path):
            return
        nothing = DeltaTable(self._path).to_pyarrow_dataset().schema.empty_table()
        metadata = {DELTA_WRITER: self._writer, name: text}
        properties = CommitProperties(custom_metadata=metadata)
        write_deltalake(self._path, nothing, mode="append", commit_properties=properties)


class PlainTableWriter:
    """Any other Spark format (jdbc, iceberg, ...): append; a crash between write and commit repeats the batch."""

    def __init__(self, format_name: str, target: Mapping[str, str], options: Mapping[str, str]) -> None:
        self._format = format_name
        self._target = dict(target)
        self._options = dict(options)

    def recover(self) -> Declared:
        """Return nothing: such a table does not keep what was written last."""
        return Declared("", {})

    def append(self, frame: Any, batch: str, ranges: Ranges, topic_ids: TopicIds = NO_IDS) -> None:
        """Append through Spark's own writer."""
        writer = frame.write.format(self._format).options(**self._options).mode("append")
        if "table" in self._target:
            writer.saveAsTable(self._target["table"])
        elif "path" in self._target:
            writer.save(self._target["path"])
        else:
            writer.save()

    def holds(self, batch: str) -> bool:
        """Return False always: this writer cannot know."""
        return False

    def forget(self, ranges: Ranges | None = None) -> None:
        """Do nothing: the table keeps no offsets of the task."""

    def forget_all(self) -> None:
        """Do nothing: the table keeps no offsets of any task."""


def writer_for(spark: Any, config: Mapping[str, str], task: ConnectorTaskId) -> TableWriter:
    """Return the writer that a sink's ``spark.format``, ``path`` and ``table`` ask for."""
    format_name = config.get("spark.format", "parquet").lower()
    options = prefixed(config, OPTION_PREFIX)
    if format_name in FILE_FORMATS and config.get("path"):
        return FileTableWriter(spark, format_name, config["path"], task, options)
    if format_name == "delta" and config.get("path") and not _spark_knows_delta(spark):
        return DeltaTableWriter(config["path"], task.connector)
    target = {key: config[key] for key in ("table", "path") if config.get(key)}
    return PlainTableWriter(format_name, target, options)


def _spark_knows_delta(spark: Any) -> bool:
    return "DeltaSparkSessionExtension" in spark.conf.get("spark.sql.extensions", "")


# The table's memory of a sink's last batch, for code outside of its tasks: read it, or forget it permanently.
#
# For altered offsets (KIP-875): a task that starts skips what the table holds and the group did not commit
# (decision 0001), so a user's rewind into that range would be skipped as well.


def held_by_table(session: Any, connector: str, config: Mapping[str, str]) -> Ranges:
    """Finish the batches that a crash left declared; return the (start, end) the table holds of each partition."""
    return dict(_writer(session, connector, config).recover().ranges)


def forget_table(session: Any, connector: str, config: Mapping[str, str]) -> None:
    """Remove what every task of the connector left. Call ``held_by_table`` first: it finishes what is half done."""
    _writer(session, connector, config).forget_all()


def _writer(session: Any, connector: str, config: Mapping[str, str]) -> Any:
    # Its own thread has no active session; writers look formats up there.
    session._jvm.org.apache.spark.sql.SparkSession.setActiveSession(session._jsparkSession)
    return writer_for(session, config, ConnectorTaskId(connector, 0))


# Port TableMemory over the tables of Spark-written sinks: any worker's driver reaches them, not only the writer's.


class SparkTables:
    """``runner`` is the late one: a session is asked for when a table is."""

    def __init__(self, runner: Any) -> None:
        self._runner = runner

    def held(self, connector: str, config: Mapping[str, str]) -> Mapping[TopicPartition, tuple[int, int]]:
        """Return per partition the (start, end) that the table holds, after it finished an interrupted batch."""

        return held_by_table(self._runner.real().session(), connector, config)

    def forget(self, connector: str, config: Mapping[str, str]) -> None:
        """Clear the table's memory, so that only the group's offsets decide where the sink resumes."""

        forget_table(self._runner.real().session(), connector, config)
