"""The task of every table sink: records in, rows gathered, one commit each interval.

A format makes the stores of its tables (`make_store`). The table's stored offsets win over the consumer group's, which
only say where a partition was read: they follow the table's commits.
"""

from __future__ import annotations

import logging
import random
import time
import uuid
import zlib
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np

from spark_connect_rt.api.records import SinkBatch, SinkRecord
from spark_connect_rt.api.task import SinkTask
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.config.config_def import Type, parse_value
from spark_connect_rt.connectors.lakehouse.change_forms import form_of_batch, form_of_record, is_truncate
from spark_connect_rt.connectors.lakehouse.changes import (
    ChangeForm,
    ChangeRules,
    changes_of_batch,
    changes_of_records,
)
from spark_connect_rt.connectors.lakehouse.commit_parts import CommitTurns
from spark_connect_rt.connectors.lakehouse.connect_columns import ICEBERG_TYPES, ArrowTypeRules
from spark_connect_rt.connectors.lakehouse.guard import commit_wait_ms, truncate_refusal
from spark_connect_rt.connectors.lakehouse.keyed_rows import KeyedRows
from spark_connect_rt.connectors.lakehouse.part_exchange import PartExchange
from spark_connect_rt.connectors.lakehouse.routes import tables_of, unnamed
from spark_connect_rt.connectors.lakehouse.sink_settings import TableSinkSettings
from spark_connect_rt.connectors.lakehouse.table_port import LoadedTable, Positions, TableStore
from spark_connect_rt.connectors.lakehouse.table_rows import TRUNCATE_REFUSED, FittedRows, RowFitter, RowRefusal
from spark_connect_rt.connectors.lakehouse.table_writer import CommitReport, TableCommitter, WriterParts
from spark_connect_rt.errors import BadConfigError, ConnectError, DataError, ExternalError, RetriableError

log = logging.getLogger(__name__)
COMMIT_LIMIT_MS = 3_000  # of one call: then the runner sees to revocations, and the next call continues
LARGEST_PUT = 40_000  # records; limited to 8 MiB in any case
METRICS = "table-sink-metrics"
_NO_OFFSETS: Positions = np.zeros(0, np.int64)
UNKNOWN_POSITION = -1


@dataclass(frozen=True, slots=True)
class OpenTable:
    """One table that the task writes."""

    writer: TableCommitter
    fitter: RowFitter
    keyed: KeyedRows | None


class TableSinkTask(SinkTask):
    """Writes records to tables. A subclass reads the settings and makes the stores."""

    types: ArrowTypeRules = ICEBERG_TYPES
    """The types that columns of the format have."""

    def __init__(
        self,
        clock_ms: Callable[[], int] = lambda: int(time.monotonic() * 1000),
        wait_ms: Callable[[int], None] | None = None,
        chance: Callable[[], float] | None = None,
        time_ms: Callable[[], int] | None = None,
    ) -> None:
        """Take time and chance, so that tests decide them.

        Args:
            clock_ms: the clock that the commit interval is measured by. It never goes back.
            wait_ms: sleeps. None: really.
            chance: returns random numbers from 0 up to, not including, 1. None: those of Python.
            time_ms: the time of day. None: the system's.
        """
        self._clock_ms = clock_ms
        self._wait_ms = wait_ms or _wait_ms
        self._chance = chance or random.Random().random
        self._time_ms = time_ms or _time_ms
        self._has_committed = False
        self._tables: dict[str, OpenTable] = {}
        self._unread: dict[TopicPartition, int] = {}  # positions of partitions that no table was asked about yet
        self._topic_ids: dict[str, str] = {}
        self._positions: dict[TopicPartition, int] = {}
        self._ends: dict[TopicPartition, int] = {}
        self._sought: dict[TopicPartition, int] = {}  # places whose first record after a seek is awaited
        self._failing_since_ms: int | None = None
        self._due_ms: int | None = None
        self._newest_ms = 0  # timestamp of the newest gathered record

    @abstractmethod
    def read_settings(self, config: Mapping[str, str]) -> TableSinkSettings:
        """Return the typed settings. Raises BadConfigError."""

    @abstractmethod
    def make_store(self, table: str) -> TableStore:
        """Return a store of a table. It connects only when it is used."""

    def make_index(self, store: TableStore) -> KeyedRows:
        """Return the index by key of a table with upserts."""
        return KeyedRows(store.name)

    @property
    def partitions(self) -> Collection[TopicPartition]:
        """The partitions that the task reads now."""
        return self._ends.keys()

    def maintain(self, table: OpenTable) -> None:
        """Do the upkeep of a table that is due after a commit. By default nothing."""

    def start(self, config: Mapping[str, str]) -> None:
        """Take the settings. The catalog is reached when partitions are opened. Raises BadConfigError."""
        self.settings = self.read_settings(config)
        self.types = replace(self.types, variable_decimal=self.settings.variable_decimal)
        self.connector = config["name"]
        self._topics = tuple(filter(None, parse_value(Type.LIST, config.get("topics") or "")))
        if not self.settings.dynamic:
            for name in self.settings.tables:
                self._tables[name] = self._open_table(name)

    def _open_table(self, name: str) -> OpenTable:
        settings = self.settings
        store = self.make_store(name)
        keyed = self.make_index(store) if settings.upsert else None
        parts = WriterParts(self._clock_ms, self._time_ms, self._wait_ms, self._chance, lambda: uuid.uuid4().hex[:16])
        exchange = None
        if settings.shares_commits:
            phase_ms = zlib.crc32(f"{self.connector} {name}".encode()) % settings.interval_ms
            writer_id = f"{int(self._chance() * (1 << 53)):014x}"
            exchange = PartExchange(name, writer_id, CommitTurns(settings.interval_ms, phase_ms))
        writer = TableCommitter(
            store, parts, keyed, refill=settings.refill, group_lag_ms=settings.group_lag_ms, exchange=exchange
        )
        return OpenTable(writer, RowFitter(writer, settings, keyed), keyed)

    # -- partitions come and go

    def open(self, partitions: Sequence[TopicPartition]) -> None:
        """Ask the tables where to read. If they cannot be reached, the first put asks again."""
        positions = self.context.positions()
        for place in partitions:
            self._positions[place] = self._unread[place] = positions.get(place, UNKNOWN_POSITION)
        try:
            self._resume()
        except RetriableError as error:
            log.warning("connector=%s: the start of %d partitions waits: %s", self.connector, len(partitions), error)

    def _resume(self) -> None:
        """Ask the tables about partitions that they were not asked about. Raises RetriableError."""
        if not self._unread:
            return
        unread = dict(self._unread)
        self._topic_ids |= self.context.topic_ids({place.topic for place in unread})
        starts: dict[TopicPartition, list[int]] = {place: [] for place in unread}
        for table in self._tables.values():
            for place, decision in table.writer.resume(unread, self._topic_ids).items():
                starts[place].append(decision.start)
        self._unread.clear()
        is_only_table = len(self._tables) == 1 and self.settings.route_field is None
        moves = {}
        for place, position in unread.items():
            # With several tables, each skips what it has, and the group's position is the one that all have reached.
            start = min(starts[place], default=position)
            self._ends[place] = position
            if start != position and start >= 0 and (is_only_table or start < position):
                moves[place] = self._ends[place] = start
        if moves:
            self._sought |= moves
            self.context.offset(moves)

    def _notice_other_log(self, place: TopicPartition, first_offset: int) -> None:
        """Rewind the tables if the log does not reach the offset that was sought.

        Then the topic was created again, and its id is unknown, or it lost records. An older record alone proves
        nothing: it may have been on its way before the seek, and is in the table. Raises ConnectError if no broker
        can be asked where the log ends.
        """
        sought = self._sought.get(place)
        if sought is None:
            return
        was_on_its_way = first_offset >= self._positions.get(place, UNKNOWN_POSITION)
        is_reached = first_offset >= sought or (was_on_its_way and self.context.end_offsets([place])[place] >= sought)
        del self._sought[place]
        if is_reached:
            return
        log.warning(
            "connector=%s: %s does not reach offset %d any more, it is read from offset %d. The topic was deleted and "
            "created again, or lost records.",
            self.connector,
            place,
            sought,
            first_offset,
        )
        self._ends[place] = first_offset
        for table in self._tables.values():
            table.writer.rewind(place, first_offset)

    def close(self, partitions: Sequence[TopicPartition]) -> None:
        """Commit what waits, so that the next owner does not read it again, and forget the partitions."""
        try:
            self._commit(COMMIT_LIMIT_MS)
        except ConnectError as error:
            log.warning("connector=%s: rows are read again by the next owner: %s", self.connector, error)
        for place in partitions:
            self._unread.pop(place, None)
            self._positions.pop(place, None)
            self._ends.pop(place, None)
            self._sought.pop(place, None)
        for table in self._tables.values():
            table.writer.release(partitions)

    def stop(self) -> None:
        """Close the tables and delete the indexes. Rows without a commit are read again after the next start."""
        tables, self._tables = self._tables, {}
        for table in tables.values():
            table.writer.close()

    # -- records

    def put(self, records: Sequence[SinkRecord]) -> None:
        """Gather records, and commit if that is due.

        A record that has no row goes to the errant record reporter. Raises DataError without one, RetriableError while
        the catalog cannot be reached, and ExternalError once that lasts too long, or the table refuses.
        """
        self._patiently(lambda: self._put(records))

    def put_batch(self, batch: SinkBatch) -> bool:
        """Gather columns. Batches with records that need a closer look go to `put`. Raises as `put`."""
        if self.settings.route_field is not None or len(self._tables) != 1:
            return False
        return self._patiently(lambda: self._put_batch(batch))

    def takes_absent_values(self) -> bool:
        """Return whether deletions come in columns, too."""
        return self.settings.upsert

    def largest_put(self) -> int:
        """Return more than a read has: each call costs as much as some 500 rows."""
        return LARGEST_PUT

    def takes_nested_structs(self) -> bool:
        """Return True: Debezium's envelopes are such structs."""
        return True

    def reads_headers(self) -> bool:
        """Return False: headers are in no table."""
        return False

    def _patiently(self, work: Callable[[], bool]) -> bool:
        """Do work that may fail while a catalog is away. Raises ExternalError once that lasts too long."""
        try:
            done = work()
        except RetriableError as error:
            now_ms = self._clock_ms()
            self._failing_since_ms = self._failing_since_ms or now_ms
            if now_ms - self._failing_since_ms >= self.settings.retry_timeout_ms:
                self._failing_since_ms = None
                raise ExternalError(
                    f"{error}. This lasted for connectrt.table.retry.timeout.ms="
                    f"{self.settings.retry_timeout_ms}. Nothing is lost: restart the task when the catalog is back."
                ) from error
            raise
        self._failing_since_ms = None
        return done

    def _put(self, records: Sequence[SinkRecord]) -> bool:
        self._resume()
        for place, run in groupby(records, key=lambda record: TopicPartition(record.topic, record.partition)):
            self._gather(place, list(run))
        self._commit_if_due()
        return True

    def _gather(self, place: TopicPartition, records: Sequence[SinkRecord]) -> None:
        self._notice_other_log(place, records[0].offset)
        # Records that are delivered again were gathered or reported before.
        fresh = [record for record in records if record.offset >= self._ends[place]]
        if not fresh:
            return
        # No row is added before every record of the put is a row or reported. Else a failed task would commit rows
        # behind a record that is neither.
        refused = {offset: RowRefusal(offset, error) for offset, error in unnamed(fresh, self.settings).items()}
        fitted: list[tuple[OpenTable, FittedRows, int]] = []
        if self.settings.upsert and self.settings.route_field is not None:
            refused |= self._routed_truncates(place, fresh)
        for name, routed in tables_of([record for record in fresh if record.offset not in refused], self.settings):
            table = self._table(name)
            for form, of_form in self._by_form(routed):
                for changes in changes_of_records(of_form, self._rules(table, form)):
                    bad = [RowRefusal(of_form[found.index].offset, found.error) for found in changes.refused]
                    refused |= {found.offset: found for found in bad}
                    if changes.table.num_rows:
                        rows = table.fitter.fit(changes, self._truncate_check(place))
                        refused |= {found.offset: found for found in rows.refused}
                        fitted.append((table, rows, int(changes.offsets[-1].as_py()) + 1))
        self._report(fresh, refused)
        for table, rows, end in fitted:
            table.writer.add(place, rows.rows, rows.offsets, end)
        self._advance(place, fresh[-1].offset + 1, (record.timestamp_ms for record in fresh))

    def _routed_truncates(self, place: TopicPartition, records: Sequence[SinkRecord]) -> dict[int, RowRefusal]:
        """Refuse truncates before records are routed, because most of them have no value in the route field."""
        reason = truncate_refusal(place, self._topics, None, (), is_routed=True)
        error = DataError(f"{TRUNCATE_REFUSED}: {reason}")
        return {
            record.offset: RowRefusal(record.offset, error)
            for record in records
            if is_truncate(record, self._form_of(record), self.settings.op_field)
        }

    def _truncate_check(self, place: TopicPartition) -> Callable[[LoadedTable], str | None]:
        """Return the check of a truncate in a partition. It asks a broker, because a topic may get more partitions."""

        def why_not(loaded: LoadedTable) -> str | None:
            count = self.context.partition_counts([place.topic]).get(place.topic)
            is_routed = self.settings.route_field is not None
            return truncate_refusal(place, self._topics, count, loaded.offsets.keys(), is_routed=is_routed)

        return why_not

    def _by_form(self, records: Sequence[SinkRecord]) -> Iterator[tuple[ChangeForm, Sequence[SinkRecord]]]:
        """Yield runs of records of one form. Records without a value delete in every form, so they end no run."""
        begin, form = 0, ChangeForm.PLAIN
        for at, record in enumerate(records):
            if record.value is None:
                continue
            found = self._form_of(record)
            if found is not form and any(earlier.value is not None for earlier in records[begin:at]):
                yield form, records[begin:at]
                begin = at
            form = found
        if begin < len(records):
            yield form, records[begin:]

    def _form_of(self, record: SinkRecord) -> ChangeForm:
        return self.settings.form or form_of_record(record, self.settings.op_field)

    def _put_batch(self, batch: SinkBatch) -> bool:
        self._resume()
        place = TopicPartition(batch.topic, batch.partition)
        offsets = batch.offsets.to_numpy()
        self._notice_other_log(place, int(offsets[0]))
        first = int(np.searchsorted(offsets, self._ends[place]))
        if first:
            batch = batch.slice(first, len(offsets) - first)
        if len(batch.offsets):
            table = next(iter(self._tables.values()))
            form = self.settings.form or form_of_batch(batch, self.settings.op_field)
            changes = changes_of_batch(batch, self._rules(table, form))
            if changes is None or changes.refused:
                return False
            rows = table.fitter.fit(changes, self._truncate_check(place))
            if rows.refused:
                return False
            end = int(offsets[-1]) + 1
            table.writer.add(place, rows.rows, rows.offsets, end)
            times = batch.timestamps_ms
            newest = [] if times is None or not len(times) else [times[-1].as_py()]
            self._advance(place, end, newest)
        self._commit_if_due()
        return True

    def _rules(self, table: OpenTable, form: ChangeForm) -> ChangeRules:
        settings = self.settings
        ids = settings.of(table.writer.store.name).id_columns or (table.writer.key_columns if settings.upsert else ())
        rules = ChangeRules(form, settings.upsert, ids, types=self.types)
        return rules if settings.op_field is None else replace(rules, op_field=settings.op_field)

    def _table(self, name: str) -> OpenTable:
        """Return a table. A new one is asked about the task's partitions."""
        table = self._tables.get(name)
        if table is None:
            table = self._open_table(name)
            found = table.writer.resume(self._positions, self._topic_ids)
            self._tables[name] = table
            back = {
                place: decision.start for place, decision in found.items() if 0 <= decision.start < self._ends[place]
            }
            if back:
                self.context.offset(back)
        return table

    def _report(self, records: Sequence[SinkRecord], refused: Mapping[int, RowRefusal]) -> None:
        """Report records without a row. Raises DataError if there is no reporter."""
        if not refused:
            return
        reporter = self.context.errant_record_reporter()
        for record in records:
            found = refused.get(record.offset)
            if found is None:
                continue
            if reporter is None:
                place = f"{record.topic}-{record.partition}@{record.offset}"
                raise DataError(f"{place}: {found.error}") from found.error
            reporter.report(record, found.error)

    def _advance(self, place: TopicPartition, end: int, timestamps_ms: Iterable[int | None]) -> None:
        """Note that everything below `end` is gathered, reported, or has no row."""
        self._ends[place] = end
        for table in self._tables.values():
            table.writer.add(place, None, _NO_OFFSETS, end)
        self._newest_ms = max((time_ms for time_ms in timestamps_ms if time_ms is not None), default=self._newest_ms)

    # -- commits

    def _commit_if_due(self) -> None:
        waiting = sum(table.writer.waiting_bytes for table in self._tables.values())
        now_ms = self._clock_ms()
        if not any(table.writer.waiting_rows for table in self._tables.values()):
            return
        if self.settings.shares_commits:
            if waiting >= self.settings.max_bytes:
                self._commit(COMMIT_LIMIT_MS)
            self._share()
            return
        if self._due_ms is None:
            is_first = not self._has_committed
            settings = self.settings
            self._due_ms = now_ms + commit_wait_ms(settings.interval_ms, settings.tasks, is_first, self._chance())
        if now_ms >= self._due_ms or waiting >= self.settings.max_bytes:
            self._commit(COMMIT_LIMIT_MS)

    def _share(self) -> None:
        """Do the next step of shared commits, and ask to be called for the step after. Raises as `share`."""
        waits = []
        for name, table in self._tables.items():
            if table.writer.waiting_rows and not table.writer.share_wait_ms():
                self._call(name, table, table.writer.share, COMMIT_LIMIT_MS)
            if table.writer.waiting_rows:
                waits.append(table.writer.share_wait_ms())
        if waits:
            self.context.timeout(max(1, min(waits)))

    def _commit(self, limit_ms: int) -> None:
        """Commit all tables. Raises as `TableCommitter.commit`."""
        for name, table in self._tables.items():
            self._call(name, table, table.writer.commit, limit_ms)
            if table.writer.waiting_rows:  # gathered after the commit before was made
                self._call(name, table, table.writer.commit, limit_ms)
        self._due_ms, self._has_committed = None, True

    def _call(self, name: str, table: OpenTable, commit: Callable[[int], CommitReport], limit_ms: int) -> None:
        """Commit or share, note the outcome, and do what follows from it. Raises as `commit`."""
        try:
            report = commit(limit_ms)
        finally:
            self._read_again(table)
        self._note(name, report)
        if report.landed and not report.by_other:
            self.maintain(table)

    def _read_again(self, table: OpenTable) -> None:
        """Continue with fenced partitions where the table stands, in case this task still owns them."""
        fenced = table.writer.take_fenced()
        moves = {place: table.writer.next_offset(place) for place in fenced if place in self._ends}
        if moves:
            self._ends |= moves
            self.context.offset(moves)

    def _note(self, name: str, report: CommitReport) -> None:
        metrics = self.context.metrics
        metrics.count("table-lost-races", report.lost_races, METRICS, table=name)
        metrics.count("table-fenced-partitions", len(report.fenced), METRICS, table=name)
        waiting = self._tables[name].writer.waiting_rows
        metrics.gauge("table-waiting-rows", waiting, METRICS, table=name)
        if not report.landed:
            return
        if not report.by_other:
            metrics.count("table-commits", 1, METRICS, table=name)
            metrics.observe("table-commit-ms", [report.elapsed_ms], METRICS, table=name)
        metrics.count("table-rows", report.rows, METRICS, table=name)
        metrics.count("table-deleted-rows", report.dead_rows, METRICS, table=name)
        metrics.count("table-bytes", report.size, METRICS, table=name)
        metrics.count("table-files", report.files, METRICS, table=name)
        if self._newest_ms:
            metrics.gauge("table-lag-s", max(0.0, time.time() - self._newest_ms / 1000), METRICS, table=name)

    def pre_commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Return the offsets below which every record is in its table, reported, or has no row."""
        safe: dict[TopicPartition, int] = {}
        for place in offsets:
            if place not in self._ends or place in self._unread:
                continue
            ends = [table.writer.safe_offsets().get(place, UNKNOWN_POSITION) for table in self._tables.values()]
            end = min(ends, default=self._ends[place])
            if end >= 0:
                safe[place] = end
        return safe


def _time_ms() -> int:
    return int(time.time() * 1000)


def _wait_ms(wait_ms: int) -> None:
    if wait_ms > 0:
        time.sleep(wait_ms / 1000)


def require_name(config: Mapping[str, str]) -> None:
    """Raise BadConfigError for a connector without a name, which stored offsets are kept by."""
    if not config.get("name"):
        raise BadConfigError({"name": ["must be set"]})
