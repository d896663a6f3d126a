"""Gathers the rows of one task for one table, and commits them through the guard.

Rows wait in memory until the task asks for a commit. Then they become data files once, and the commit is tried until it
is visible, or the guard fences it. A commit whose answer was lost is looked for before anything else happens.

With a `PartExchange`, tasks share commits: `share` offers the files to the other tasks, and whichever task commits puts
all parts that hold into its commit. `commit` and its checks are the same then, with the parts of others added.

Rows are kept until their commit is visible. So a commit can be made again without some partitions, and an error leaves
a writer that can simply be asked again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
import pyarrow as pa

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.connectors.lakehouse.changes import OP, after_truncate, upserts_of
from spark_connect_rt.connectors.lakehouse.commit_parts import CommitPart
from spark_connect_rt.connectors.lakehouse.guard import (
    GROUP_LAG_MS,
    CommitVerdict,
    ResumePoint,
    ResumeReason,
    check,
    is_surely_absent,
    race_wait_ms,
    resume,
    stored_after,
)
from spark_connect_rt.connectors.lakehouse.part_exchange import FoundPart, PartExchange
from spark_connect_rt.connectors.lakehouse.table_port import (
    CommitResult,
    Committed,
    LoadedTable,
    LostRace,
    NewFile,
    Positions,
    StoredOffset,
    TableCommit,
    TableStore,
    WrittenRange,
)
from spark_connect_rt.connectors.lakehouse.table_schema import fit
from spark_connect_rt.errors import ExternalError, FencedError, RetriableError

log = logging.getLogger(__name__)

MOST_FENCES = 10  # in a row without a commit: two connectors write the same partitions


@dataclass(frozen=True, slots=True)
class WriterParts:
    """Time, chance and ids for a writer, so that tests decide them.

    `clock_ms` never goes back, and `time_ms` is the time of day.
    """

    clock_ms: Callable[[], int]
    time_ms: Callable[[], int]
    wait_ms: Callable[[int], None]
    chance: Callable[[], float]
    new_id: Callable[[], str]


@dataclass(frozen=True, slots=True)
class CommitReport:
    """The result of a call of `commit`.

    Attributes:
        rows: rows in the new data files.
        dead_rows: rows of older files that were deleted. After a truncate, all rows of these files.
        size: bytes of the new data files.
        files: how many data files.
        lost_races: how often another writer was faster.
        fenced: partitions whose rows were dropped, because another task has written them.
        elapsed_ms: duration of the call.
        landed: whether a commit became visible.
        by_other: whether another task made that commit, with rows that this task had offered.
    """

    rows: int = 0
    dead_rows: int = 0
    size: int = 0
    files: int = 0
    lost_races: int = 0
    fenced: frozenset[TopicPartition] = frozenset()
    elapsed_ms: int = 0
    landed: bool = False
    by_other: bool = False


class RowIndex(Protocol):
    """Finds the row of a key, for tables with upserts. `KeyedRows` is the implementation."""

    def catch_up(self, loaded: LoadedTable) -> None:
        """Make the index stand for this state, after changes by other writers."""

    def latest(self, changes: pa.Table) -> pa.Table:
        """Return only the last change of each key, in order."""

    def replace(self, changes: pa.Table, files: Sequence[NewFile]) -> Mapping[str, Positions]:
        """Point the keys of `changes` at their new rows, and return the rows that are dead by that.

        `changes` is what `latest` returned. The files hold its upserts in order.
        """

    def undo(self) -> None:
        """Take the last `replace` back. Nothing happens if it was confirmed."""

    def confirm(self, committed: Committed | None) -> None:
        """Keep the last `replace`, whose commit is this one. None: the answer was lost, so `catch_up` has to look."""

    def close(self) -> None:
        """Delete the files of the index."""


@dataclass(slots=True)
class _Gathered:
    """The rows of one partition that wait for a commit, and the offsets that they stand for."""

    expected: StoredOffset | None
    topic_id: str | None
    start: int
    end: int
    rows: list[pa.Table] = field(default_factory=list)
    first_rows: list[int] = field(default_factory=list)  # the offset of the first row of each table

    @property
    def range(self) -> WrittenRange:
        return WrittenRange(self.expected, self.start, self.end, self.topic_id, self.first_rows[0])


@dataclass(slots=True)
class _Attempt:
    """A commit that is not visible yet. Rows that are gathered after it was made wait for the next one.

    Attributes:
        gathered: the partitions in it, as they were when it was made. A partition that leaves and returns is another.
        after: the offsets that the table stores of them once the commit is visible.
        chunks: how many gathered tables of each partition are in it.
        truncates: whether all rows that the table has are removed before the changes.
        answer_lost: whether the last try got no answer.
        doubtful_on: the state that a lost request was made on. While the table is in this state, the request may still
            arrive and succeed.
        written_for: the table that the files were written for.
        offered: whether other tasks may commit it.
        collected_at_ms: when the first task commits offers, by the clock of the writer.
        by_other: whether another task has committed it.
        error: why there was no answer.
    """

    commit_id: str
    gathered: Mapping[TopicPartition, _Gathered]
    ranges: Mapping[TopicPartition, WrittenRange]
    after: Mapping[TopicPartition, StoredOffset]
    chunks: Mapping[TopicPartition, int]
    changes: pa.Table
    truncates: bool = False
    files: Sequence[NewFile] = ()
    dead_rows: int = 0
    answer_lost: bool = False
    doubtful_on: tuple[str, str | None] | None = None
    written_for: str = ""
    offered: bool = False
    collected_at_ms: int = 0
    by_other: bool = False
    error: Exception | None = None


class TableCommitter:
    """Writes the partitions of one task to one table. One thread."""

    def __init__(
        self,
        store: TableStore,
        parts: WriterParts,
        index: RowIndex | None = None,
        *,
        refill: bool = False,
        group_lag_ms: int = GROUP_LAG_MS,
        exchange: PartExchange | None = None,
    ) -> None:
        """Take the store of a table, and the index of its keys for upserts.

        Args:
            index: finds rows by key, for upserts and deletes. None: every row is appended.
            refill: whether records that a rollback of the table removed are written again.
            group_lag_ms: how long the consumer group may be behind the table, ms.
            exchange: passes parts of commits between tasks that append. None: each task commits for itself.
        """
        assert index is None or exchange is None, "positions of deleted rows are valid for a single writer only"
        self.store = store
        self._parts = parts
        self._index = index
        self._refill = refill
        self._group_lag_ms = group_lag_ms
        self._exchange = exchange
        self._share_at_ms: int | None = None  # when `share` has something to do
        self.schema: pa.Schema | None = None
        """The table's columns as of the last load. None: the table does not exist, or was not loaded yet."""
        self.key_columns: tuple[str, ...] = ()
        """The columns that identify a row, as the table names them."""
        self._places: dict[TopicPartition, _Gathered] = {}
        self._attempt: _Attempt | None = None
        self._fences = 0  # in a row
        self._rank = 0  # how many other tasks with a part come before this one
        self._shared: Sequence[FoundPart] = ()  # parts of other tasks in the last request
        self._won_last = False
        self._size = 0

    def load(self) -> LoadedTable | None:
        """Return the table's newest state, and note its schema."""
        loaded = self.store.load()
        self.schema = None if loaded is None else loaded.schema
        self.key_columns = () if loaded is None else loaded.key_columns
        return loaded

    # -- partitions come and go

    def resume(
        self, positions: Mapping[TopicPartition, int], topic_ids: Mapping[str, str]
    ) -> dict[TopicPartition, ResumePoint]:
        """Return where to read partitions that are newly assigned, and start to write them.

        Args:
            positions: where the consumer group stands.
            topic_ids: ids of the topics, as far as they are known.

        Raises RetriableError if the table cannot be loaded.
        """
        loaded = self.load()
        stored = {} if loaded is None else loaded.offsets
        rolled_back = {} if loaded is None else loaded.rolled_back()
        if self._exchange is not None and loaded is not None:
            self._exchange.claim(loaded, positions.keys())
        found = {}
        for place, position in positions.items():
            topic_id = topic_ids.get(place.topic)
            decision = resume(stored.get(place), position, topic_id, rolled_back.get(place) if self._refill else None)
            if place in rolled_back and not self._refill:
                log.warning(
                    "table %s: it was rolled back, and records of %s from offset %d on stay away "
                    "(connectrt.table.rollback=keep)",
                    self.store.name,
                    place,
                    rolled_back[place],
                )
            self._places[place] = _Gathered(decision.expected, topic_id, decision.start, decision.start)
            found[place] = decision
            _log_resume(self.store.name, place, position, decision)
        return found

    def release(self, places: Collection[TopicPartition]) -> None:
        """Forget partitions. Their rows without a commit are dropped, because their next owner reads them again."""
        for place in places:
            gathered = self._places.pop(place, None)
            if gathered is not None:
                self._drop_rows(gathered, len(gathered.rows))

    # -- rows are gathered

    def add(self, place: TopicPartition, rows: pa.Table | None, offsets: Positions, end: int) -> None:
        """Gather rows of a partition. Those that were added before, or are in the table, are skipped.

        Args:
            rows: columns of the table as of `schema`, and for a table with keys the column `OP`. None: the records
                have no rows.
            offsets: the Kafka offset of each row, ascending.
            end: the offset after the last record, with or without a row.
        """
        gathered = self._places[place]
        if end <= gathered.end:
            return
        if rows is not None and rows.num_rows:
            first = int(np.searchsorted(offsets, gathered.end))
            if rows.num_rows > first:
                gathered.rows.append(rows.slice(first) if first else rows)
                gathered.first_rows.append(int(offsets[first]))
                self._size += gathered.rows[-1].nbytes
        gathered.end = end

    def rewind(self, place: TopicPartition, offset: int) -> None:
        """Continue with a partition at an earlier offset, because its topic does not have the later ones any more."""
        gathered = self._places[place]
        self._drop_rows(gathered, len(gathered.rows))
        self._places[place] = _Gathered(gathered.expected, gathered.topic_id, offset, offset)

    def next_offset(self, place: TopicPartition) -> int:
        """Return the next offset to add of a partition."""
        return self._places[place].end

    @property
    def waiting_bytes(self) -> int:
        """How many bytes of rows wait for a commit."""
        return self._size

    @property
    def waiting_rows(self) -> int:
        """How many rows wait for a commit."""
        return sum(rows.num_rows for gathered in self._places.values() for rows in gathered.rows)

    def safe_offsets(self) -> dict[TopicPartition, int]:
        """Return the next offset of each partition below which nothing waits for a commit."""
        return {
            place: gathered.first_rows[0] if gathered.rows else gathered.end for place, gathered in self._places.items()
        }

    # -- the commit

    def commit(self, limit_ms: int) -> CommitReport:
        """Commit everything that waits, or find out that it is fenced.

        Args:
            limit_ms: for how long lost races and lost answers are tried again within this call.

        Raises RetriableError if that takes longer, or the catalog cannot be reached: the rows still wait, and the next
        call continues. Raises FencedError if other tasks keep writing the same partitions, and ExternalError for a
        table that refuses the rows.
        """
        began_ms = self._parts.clock_ms()
        fenced: frozenset[TopicPartition] = frozenset()
        losses = 0
        while True:
            attempt = self._attempt or self._new_attempt()
            if attempt is None:
                return CommitReport(lost_races=losses, fenced=fenced, elapsed_ms=self._parts.clock_ms() - began_ms)
            self._attempt = attempt
            self._parts.wait_ms(race_wait_ms(losses, self._won_last, self._parts.chance()))
            now_fenced, landed = self._try_once(attempt, self._commit_on)
            fenced |= now_fenced
            if landed:
                return self._report(attempt, losses, fenced, self._parts.clock_ms() - began_ms)
            losses += not now_fenced
            if losses and self._parts.clock_ms() - began_ms > limit_ms:
                if attempt.answer_lost:
                    error = attempt.error
                    raise RetriableError(f"table {self.store.name}: no answer to a commit: {error}") from error
                raise RetriableError(f"table {self.store.name}: other writers were faster {losses} times")

    def _report(
        self, attempt: _Attempt, losses: int, fenced: frozenset[TopicPartition], elapsed_ms: int
    ) -> CommitReport:
        return CommitReport(
            sum(new.rows for new in attempt.files),
            attempt.dead_rows,
            sum(new.size for new in attempt.files),
            len(attempt.files),
            losses,
            fenced,
            elapsed_ms,
            landed=True,
            by_other=attempt.by_other,
        )

    # -- commits that tasks share

    def share(self, limit_ms: int) -> CommitReport:
        """Do the next step of a shared commit if it is time: offer what waits, look for it in the table, or commit.

        The task calls this again after `share_wait_ms`. Raises as `commit`.
        """
        assert self._exchange is not None
        if self.share_wait_ms() > 0:
            return CommitReport()
        turns, began_ms = self._exchange.turns, self._parts.clock_ms()
        self._share_at_ms = began_ms  # after an error, the next call continues at once
        fenced: frozenset[TopicPartition] = frozenset()
        while (attempt := self._attempt or self._new_attempt()) is not None:
            self._attempt = attempt
            now_fenced, landed = self._try_once(attempt, self._offer_on)
            fenced |= now_fenced
            if landed:
                self._share_at_ms = None
                return self._report(attempt, 0, fenced, self._parts.clock_ms() - began_ms)
            if self._attempt is None:  # fenced, or partitions have left: the other rows are offered again
                continue
            now_ms = self._parts.clock_ms()
            wait_ms = attempt.collected_at_ms - now_ms
            if wait_ms <= 0:
                wait_ms += turns.turn_ms(self._rank)
                if wait_ms <= 0:
                    report = self.commit(limit_ms)
                    self._share_at_ms = None
                    return replace(report, fenced=report.fenced | fenced)
                wait_ms = min(wait_ms, turns.poll_ms)
            self._share_at_ms = now_ms + wait_ms
            return CommitReport(fenced=fenced, elapsed_ms=now_ms - began_ms)
        self._share_at_ms = None
        return CommitReport(fenced=fenced, elapsed_ms=self._parts.clock_ms() - began_ms)

    def share_wait_ms(self) -> int:
        """Return the time until `share` has something to do."""
        assert self._exchange is not None
        now_ms = self._parts.clock_ms()
        if self._share_at_ms is None:
            self._share_at_ms = now_ms + self._exchange.turns.offer_wait_ms(self._parts.time_ms())
        return max(0, self._share_at_ms - now_ms)

    def _offer_on(self, loaded: LoadedTable, attempt: _Attempt) -> None:
        """Offer an attempt. From the time on when offers are committed, note the rank of this task instead."""
        assert self._exchange is not None
        now_ms = self._parts.clock_ms()
        if attempt.offered:
            if now_ms >= attempt.collected_at_ms:
                self._rank = self._exchange.rank(loaded)
            return
        attempt.collected_at_ms = now_ms + self._exchange.turns.collection_wait_ms(self._parts.time_ms())
        self._write(loaded, attempt)
        files = [loaded.pack(new) for new in attempt.files]
        part = CommitPart(attempt.commit_id, loaded.table_id, attempt.ranges, attempt.after, files)
        attempt.offered = True  # from here on, others may see it, also if the answer of the file system is lost
        self._exchange.offer(loaded, part)
        self._rank = 0 if self._parts.clock_ms() < attempt.collected_at_ms else self._exchange.rank(loaded)

    def _new_attempt(self) -> _Attempt | None:
        waiting = {place: gathered for place, gathered in self._places.items() if gathered.rows}
        if not waiting:
            return None
        newest = self._schema_of_changes(self.schema)
        changes, truncates = _changes_of([_conformed(gathered.rows, newest) for gathered in waiting.values()])
        if self._index is not None and changes.num_rows:
            changes = self._index.latest(changes)
        commit_id, now_ms = self._parts.new_id(), self._parts.time_ms()
        ranges = {place: gathered.range for place, gathered in waiting.items()}
        return _Attempt(
            commit_id,
            waiting,
            ranges,
            {place: stored_after(part, commit_id, now_ms, self._group_lag_ms) for place, part in ranges.items()},
            {place: len(gathered.rows) for place, gathered in waiting.items()},
            changes,
            truncates,
        )

    def _try_once(
        self, attempt: _Attempt, act: Callable[[LoadedTable, _Attempt], CommitResult | None]
    ) -> tuple[frozenset[TopicPartition], bool]:
        """Return the partitions that are fenced, and whether the commit is visible.

        `act` is called on the loaded state if the guard holds. None: it made no request.
        """
        loaded = self.store.load()
        if loaded is None:
            raise ExternalError(f"table {self.store.name} does not exist any more. Create it, then restart the task.")
        found = check(loaded.offsets, attempt.ranges, attempt.commit_id)
        if found.verdict is CommitVerdict.LANDED:
            attempt.by_other = attempt.doubtful_on is None
            if self._exchange is not None and not attempt.by_other:
                self._exchange.finish(loaded, attempt.commit_id, ())
            self._landed(attempt, None)
            return frozenset(), True
        if attempt.answer_lost:  # not visible so far: if it arrives later, the index sees it as another writer's
            self._undo(attempt)
        if found.verdict is CommitVerdict.FENCED:
            self._give_up(attempt, loaded, is_fenced=True)
            return self._fenced(found.fenced, loaded), False
        if any(
            self._places.get(place) is not gathered for place, gathered in attempt.gathered.items()
        ):  # partitions have left
            self._give_up(attempt, loaded, is_fenced=False)
            return frozenset(), False
        return frozenset(), self._note_result(loaded, attempt, act(loaded, attempt))

    def _note_result(self, loaded: LoadedTable, attempt: _Attempt, result: CommitResult | None) -> bool:
        """Take what became of a request that was made on a state. Returns whether the commit is surely visible."""
        if isinstance(result, Committed):
            if self._exchange is not None:
                self._exchange.finish(loaded, attempt.commit_id, self._shared)
            self._landed(attempt, result)
            return True
        if isinstance(result, LostRace):
            self._undo(attempt)
            self._won_last = False
        elif result is not None:
            attempt.answer_lost, attempt.doubtful_on, attempt.error = True, _state_of(loaded), result.error
            log.warning("table %s: no answer to commit %s: %s", self.store.name, attempt.commit_id, result.error)
        return False

    def _commit_on(self, loaded: LoadedTable, attempt: _Attempt) -> CommitResult:
        self.schema = loaded.schema
        attempt.changes = conform(attempt.changes, self._schema_of_changes(loaded.schema))
        upserts = attempt.changes
        dead: Mapping[str, Positions] = {}
        if self._index is not None:
            upserts = upserts_of(upserts, loaded.schema)
            if not attempt.truncates:
                self._index.catch_up(loaded)
        self._write(loaded, attempt, upserts)
        if attempt.truncates:
            # All earlier rows go, so none has to be found. The next catch_up sees files that went and files that came.
            attempt.dead_rows = sum(file.rows for file in loaded.live_files().values())
        elif self._index is not None:
            dead = self._index.replace(attempt.changes, attempt.files)
            attempt.dead_rows = sum(len(positions) for positions in dead.values())
        changes = None if self._index is None else attempt.changes
        self._shared = shared = () if self._exchange is None else self._exchange.gather(loaded, attempt.ranges)
        after = dict(attempt.after)
        for found in shared:
            after |= found.part.after
        commit = TableCommit(
            ",".join([attempt.commit_id, *(found.part.part_id for found in shared)]),
            after,
            (),
            [*attempt.files, *(new for found in shared for new in found.files)],
            dead,
            changes,
            truncates=attempt.truncates,
        )
        try:
            return loaded.commit(commit)
        except Exception:
            self._undo(attempt)  # surely not visible
            raise

    def _write(self, loaded: LoadedTable, attempt: _Attempt, upserts: pa.Table | None = None) -> None:
        """Write the files of an attempt, unless they are there. Those of a table that was replaced are useless."""
        if attempt.written_for != loaded.table_id:
            attempt.files, attempt.written_for = (), loaded.table_id
        if upserts is None:
            self.schema = loaded.schema
            upserts = attempt.changes = conform(attempt.changes, self._schema_of_changes(loaded.schema))
        if not attempt.files and upserts.num_rows:
            attempt.files = loaded.write(upserts)

    def _schema_of_changes(self, schema: pa.Schema | None) -> pa.Schema:
        assert schema is not None, "rows were added before the table's schema was known"
        if self._index is None:
            return schema
        optional = [field.with_nullable(True) for field in schema]  # a delete has only its key
        return pa.schema([pa.field(OP, pa.string()), *optional])

    def _undo(self, attempt: _Attempt) -> None:
        attempt.answer_lost = False
        if self._index is not None:
            self._index.undo()

    def _landed(self, attempt: _Attempt, committed: Committed | None) -> None:
        if self._index is not None:
            self._index.confirm(committed)
        for place, part in attempt.ranges.items():
            gathered = attempt.gathered[place]
            if self._places.get(place) is gathered:
                self._drop_rows(gathered, attempt.chunks[place])
                gathered.expected, gathered.start = attempt.after[place], part.end
        self._attempt, self._fences, self._won_last = None, 0, True

    def _give_up(self, attempt: _Attempt, loaded: LoadedTable, *, is_fenced: bool) -> None:
        """Drop the attempt, not its rows. Its files hold rows of several partitions, so they are written again.

        Files are deleted only if no snapshot can name them, now or later. `connectrt table maintain` finds the others.
        """
        self._attempt, self._won_last = None, False
        may_land = attempt.doubtful_on == _state_of(loaded)
        if attempt.offered and self._exchange is not None:
            # A task that has read the part may commit it, unless the guard fences it from this state on.
            may_land |= not self._exchange.withdraw(loaded, attempt.commit_id) or not is_fenced
        is_private = attempt.doubtful_on is None and not attempt.offered
        if is_private or (not may_land and is_surely_absent(loaded.offsets, attempt.ranges, attempt.commit_id)):
            self.store.discard([new.path for new in attempt.files])

    def _drop_rows(self, gathered: _Gathered, chunks: int) -> None:
        self._size -= sum(rows.nbytes for rows in gathered.rows[:chunks])
        del gathered.rows[:chunks], gathered.first_rows[:chunks]

    def _fenced(self, fenced: frozenset[TopicPartition], loaded: LoadedTable) -> frozenset[TopicPartition]:
        """Drop the rows of fenced partitions, and continue with these where the table stands. Returns them."""
        dropped = set()
        for place in fenced:
            gathered, stored = self._places.get(place), loaded.offsets.get(place)
            if gathered is None:
                continue
            gathered.expected = stored
            if stored is None:  # the table was created again, so its rows and offsets are gone: nothing is there twice
                log.warning("table %s: it holds no offset of %s any more", self.store.name, place)
                continue
            dropped.add(place)
            self._drop_rows(gathered, len(gathered.rows))
            gathered.start = gathered.end = stored.end
            log.warning(
                "table %s: another task wrote %s up to offset %d, its rows from here are dropped and read again from "
                "there",
                self.store.name,
                place,
                stored.end,
            )
        if fenced:
            self._fences += 1
        if self._fences > MOST_FENCES:
            raise FencedError(
                f"table {self.store.name}: other tasks wrote {', '.join(map(str, sorted(fenced)))} "
                f"{self._fences} times in a row. Give each connector that writes this table its own name."
            )
        return frozenset(dropped)

    def close(self) -> None:
        """Delete files that no commit names, if that is certain, and close the table and the index."""
        attempt, self._attempt = self._attempt, None
        try:
            if attempt is not None and attempt.offered and self._exchange is not None:
                loaded = self.store.load()
                if loaded is not None:
                    self._exchange.withdraw(loaded, attempt.commit_id)
            elif attempt is not None and attempt.doubtful_on is None:
                self.store.discard([new.path for new in attempt.files])
        finally:
            if self._index is not None:
                self._index.close()
            self.store.close()


def _conformed(tables: Sequence[pa.Table], schema: pa.Schema) -> pa.Table:
    return pa.concat_tables([conform(rows, schema) for rows in tables])


def _changes_of(partitions: Sequence[pa.Table]) -> tuple[pa.Table, bool]:
    """Return the changes that are left of each partition after its truncates, and whether there was a truncate."""
    if OP not in partitions[0].column_names:
        return pa.concat_tables(partitions), False
    left = [after_truncate(changes) for changes in partitions]
    return pa.concat_tables([changes for changes, _ in left]), any(truncates for _, truncates in left)


def conform(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return rows with exactly the columns of `schema`, after another writer or an earlier batch changed the table.

    Raises ExternalError if a row does not fit.
    """
    if rows.schema.equals(schema):
        return rows
    fitted = fit(rows, schema)
    if fitted.unfit:
        unfit = fitted.unfit[0]
        raise ExternalError(
            f"column {unfit.path}: {unfit.reason}. The table's schema was changed while rows waited for their commit. "
            "Undo the change, or restart the task to read the records again."
        )
    return fitted.table


def _state_of(loaded: LoadedTable) -> tuple[str, str | None]:
    return loaded.table_id, loaded.snapshot


def _log_resume(table: str, place: TopicPartition, position: int, decision: ResumePoint) -> None:
    quiet = decision.reason in (ResumeReason.FIRST, ResumeReason.IN_STEP, ResumeReason.TABLE_AHEAD)
    log.log(
        logging.INFO if quiet else logging.WARNING,
        "table %s: reading %s from offset %d (group at %d, table at %s): %s",
        table,
        place,
        decision.start,
        position,
        "nothing" if decision.expected is None else decision.expected.end,
        decision.reason.value,
    )
