"""One unit of a dlt source in a task: pass after pass, its records as pieces, each with the offset after it.

A pass's state is right only at its end, because a source may return rows in any order. So every record but the last of
a pass carries the offset before the pass, and an interrupted pass is read again from its beginning. Where rows are in
the cursor's order, the offset moves with each page.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spark_connect_rt.api.records import SourceBatch
from spark_connect_rt.connectors.python_sources.passes import PassTimes
from spark_connect_rt.connectors.python_sources.table_pages import (
    GiveUp,
    Page,
    Piece,
    TableHints,
    TablePages,
    rows_in,
    topic_name,
    with_offset,
)
from spark_connect_rt.errors import ConnectError

if TYPE_CHECKING:
    from spark_connect_rt.connectors.python_sources.dlt_passes import DltPass, State

STATE, ENDED_MS = "state", "ended_ms"
AUTO, PASS, PAGE = "auto", "pass", "page"
_LOOK_S = 0.1  # longest time in which rows are gathered before they are returned


@dataclass(frozen=True, slots=True)
class UnitSettings:
    """The settings that the units of one task share."""

    topic_prefix: str
    most_rows: int
    offsets: str
    schemaless: bool
    in_transactions: bool = False
    """A pass is a transaction: one that failed after its first records must not be read again in the same."""


class DltUnit:
    """Reads one unit again and again, when it is time."""

    def __init__(
        self,
        name: str,
        partition: Mapping[str, Any],
        stored: Mapping[str, Any] | None,
        open_pass: Callable[[str], DltPass],
        settings: UnitSettings,
        give_up: GiveUp,
        times: PassTimes,
    ) -> None:
        """Resume from ``stored``. ``open_pass`` takes the state as text."""
        self.name = name
        self._partition, self._open_pass, self._settings = partition, open_pass, settings
        self._give_up, self.times = give_up, times
        self._offset: Mapping[str, Any] = stored or {STATE: "{}"}
        if self._offset.get(ENDED_MS) is not None:
            times.ended(self._offset[ENDED_MS])
        self._pass: DltPass | None = None
        self._by_page = False
        self._tables: dict[str, TablePages] = {}
        self._held: list[Piece] = []
        self._ready: deque[Piece] = deque()
        self._in_flight = False  # the pass has handed records on

    @property
    def busy(self) -> bool:
        """Return whether a pass is in progress."""
        return self._pass is not None or bool(self._ready)

    def poll(self) -> list[Piece]:
        """Return the next records. Raises ConnectError: the source failed too often, or for good."""
        if not self._ready and self.times.due:
            self._read()
        taken: list[Piece] = []
        rows = 0
        while self._ready and rows < self._settings.most_rows:
            taken.append(self._ready.popleft())
            rows += rows_in(taken[-1:])
        self._in_flight = self.busy and (self._in_flight or bool(taken))
        return taken

    def _read(self) -> None:
        try:
            if self._pass is None:
                self._pass = self._open_pass(self._offset[STATE])
                self._by_page = self._settings.offsets == PAGE or (
                    self._settings.offsets == AUTO and self._pass.ordered()
                )
            pieces, ended = self._gather(self._pass)
        except ConnectError:
            raise
        except Exception as error:  # noqa: BLE001 - errors of users' sources have no common base class
            self._failed(error)
            return
        # otherwise a pass that never moves its offset could fail again and again without a limit
        if ended or (self._by_page and pieces):
            self.times.succeeded()
        if self._by_page:
            self._note_page(pieces, ended)
        else:
            self._note_part(pieces, ended)
        if ended:
            self._pass = None
            self.times.ended()

    def _gather(self, reading: DltPass) -> tuple[list[Piece], bool]:
        """Read until there is enough, or time is up, or the pass ends."""
        found: dict[str, list[Any]] = {}
        pieces: list[Piece] = []
        rows, until_s, ended = 0, time.monotonic() + _LOOK_S, False
        while rows < self._settings.most_rows and time.monotonic() < until_s:
            try:
                items = reading.next()
            except StopIteration:
                ended = True
                break
            for table, hints, page in items:
                known = self._table(table, hints)
                rows += len(page)
                if isinstance(page, list):
                    found.setdefault(table, []).extend(page)
                else:
                    self._add(pieces, known, found.pop(table, []))
                    self._add(pieces, known, page)
        for table, page in found.items():
            self._add(pieces, self._tables[table], page)
        return pieces, ended

    def _add(self, pieces: list[Piece], table: TablePages, page: Page) -> None:
        if isinstance(page, list) and not page:
            return
        most = self._settings.most_rows
        for piece in table.pieces(page, self._partition, self._offset):
            if isinstance(piece, SourceBatch) and len(piece.values) > most:
                pieces += [piece.slice(start, most) for start in range(0, len(piece.values), most)]
            else:
                pieces.append(piece)

    def _table(self, table: str, hints: TableHints) -> TablePages:
        known = self._tables.get(table)
        if known is None or known.hints != hints:
            topic = topic_name(self._settings.topic_prefix, table)
            known = self._tables[table] = TablePages(table, topic, hints, self._give_up, self._settings.schemaless)
        return known

    def _note_page(self, pieces: list[Piece], ended: bool) -> None:
        assert self._pass is not None
        self._offset = self._place(self._pass.state, ended)
        if pieces:
            pieces[-1] = with_offset(pieces[-1], self._offset)
        self._ready.extend(pieces)

    def _note_part(self, pieces: list[Piece], ended: bool) -> None:
        assert self._pass is not None
        self._held += pieces
        if ended:
            self._offset = self._place(self._pass.state, ended)
            if self._held:
                self._held[-1] = with_offset(self._held[-1], self._offset)
        kept = 0 if ended else 1  # the last of a pass has the offset at which the next one begins
        gone, self._held = self._held[: len(self._held) - kept], self._held[len(self._held) - kept :]
        self._ready.extend(gone)

    def _place(self, state: State, ended: bool) -> Mapping[str, Any]:
        from spark_connect_rt.connectors.python_sources.dlt_passes import state_text

        return {STATE: state_text(state), **({ENDED_MS: round(self.times.now_ms())} if ended else {})}

    def _failed(self, error: Exception) -> None:
        """Drop the pass and wait. Raises ConnectError: it failed too often in a row."""
        self.close()
        self.times.failed(self.name, error, final=self._settings.in_transactions and self._in_flight)

    def close(self) -> None:
        """End the pass that is in progress, and drop its pieces that were not returned."""
        if self._pass is not None:
            self._pass.close()
        self._pass = None
        self._held = []
