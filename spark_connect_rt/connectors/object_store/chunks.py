"""Gathered rows of a topic partition, where they are cut, and the files that they become. Pure.

A chunk is a range of offsets of one topic partition. All of its files are written together, one for each folder. The
first record of the chunk decides the name of its *lead file*, wherever the chunk ends. The lead file is written first,
on the condition that it does not exist, with a note of the range. So of all tasks that ever write a chunk that begins
there, one alone decides where it ends. The others see the note, cut at the same offset, and make the same files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_connect_rt.connectors.object_store.formats import PreparedRows, RowFormat
from spark_connect_rt.connectors.object_store.partitioners import NO_TIME, Folders

Numbers = npt.NDArray[np.int64]
VALUES, KEYS, HEADERS = "", ".keys", ".headers"
"""The parts of a record that have files, and what precedes the ending of their names."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows of one topic partition as they arrived, in the order of their offsets, with at least one row.

    Attributes:
        offsets: of each row.
        times_ms: for rotation, `NO_TIME` where a record has none.
        folders: of each row.
        parts: prepared values and, if they are wanted, keys and headers.
    """

    offsets: Numbers
    times_ms: Numbers
    folders: Folders
    parts: Mapping[str, PreparedRows]

    def __len__(self) -> int:
        return len(self.offsets)

    def slice(self, start: int, count: int) -> Piece:
        """Return some of the rows."""
        codes, names = np.unique(self.folders.codes[start : start + count], return_inverse=True)
        return Piece(
            self.offsets[start : start + count],
            self.times_ms[start : start + count],
            Folders(names, tuple(self.folders.names[code] for code in codes.tolist())),
            {name: PreparedRows(part.kind, part.rows.slice(start, count)) for name, part in self.parts.items()},
        )

    @property
    def size(self) -> int:
        """The bytes that the rows take in memory."""
        return sum(int(part.rows.nbytes) for part in self.parts.values()) + 24 * len(self)


@dataclass(frozen=True, slots=True)
class CutRules:
    """Where chunks end. Durations in ms, -1 for never."""

    rows: int
    span_ms: int
    size: int
    folders: int


@dataclass(frozen=True, slots=True)
class ChunkFile:
    """A file to write: its folder, its first offset, and for each part the prepared rows."""

    folder: str
    offset: int
    rows: Mapping[str, Sequence[pa.Array]]


@dataclass(slots=True)
class Chunk:
    """The rows of a topic partition that are not in files yet."""

    formats: Mapping[str, RowFormat]
    rules: CutRules
    pieces: list[Piece] = field(default_factory=list)
    rows: int = 0
    size: int = 0
    kinds: dict[str, Any] = field(default_factory=dict)
    end: int | None = None
    """Where the chunk has to end, because its lead file says so. None: the rules decide."""
    _base_ms: int = NO_TIME
    _folders: set[str] = field(default_factory=set)

    @property
    def start(self) -> int:
        """The offset of the first row. There must be one."""
        return int(self.pieces[0].offsets[0])

    @property
    def next_offset(self) -> int:
        """The offset behind the last row."""
        return int(self.pieces[-1].offsets[-1]) + 1

    def room_for(self, piece: Piece) -> int:
        """Return how many first rows of a piece belong to this chunk. 0: the chunk has to be written before."""
        kinds = self._merged(piece)
        if kinds is None:
            return 0
        if self.end is not None:
            return int(np.searchsorted(piece.offsets, self.end))
        room = min(len(piece), self.rules.rows - self.rows)
        if self.rules.span_ms > 0:
            room = min(room, self._rows_in_span(piece))
        per_row = max(1, piece.size // len(piece))
        room = min(room, max(0 if self.rows else 1, (self.rules.size - self.size) // per_row))
        return min(room, self._rows_in_folders(piece))

    def _merged(self, piece: Piece) -> dict[str, Any] | None:
        merged = {}
        for name, part in piece.parts.items():
            kind = self.formats[name].merged(self.kinds[name], part.kind) if self.rows else part.kind
            if kind is None:
                return None
            merged[name] = kind
        return merged

    def _rows_in_span(self, piece: Piece) -> int:
        times = piece.times_ms
        base = self._base_ms
        if base == NO_TIME:
            known = times[times != NO_TIME]
            if not len(known):
                return len(times)
            base = int(known[0])
        late = np.flatnonzero((times != NO_TIME) & (times >= base + self.rules.span_ms))
        return int(late[0]) if len(late) else len(times)

    def _rows_in_folders(self, piece: Piece) -> int:
        names = piece.folders.names
        new = [code for code, name in enumerate(names) if name not in self._folders]
        free = self.rules.folders - len(self._folders)
        if len(new) <= free:
            return len(piece)
        firsts = np.sort([int(np.flatnonzero(piece.folders.codes == code)[0]) for code in new])
        return int(firsts[free])

    def add(self, piece: Piece) -> None:
        """Take rows for which `room_for` found room."""
        kinds = self._merged(piece)
        assert kinds is not None
        self.kinds = kinds
        if self._base_ms == NO_TIME:
            known = piece.times_ms[piece.times_ms != NO_TIME]
            self._base_ms = int(known[0]) if len(known) else NO_TIME
        self.pieces.append(piece)
        self.rows += len(piece)
        self.size += piece.size
        self._folders.update(piece.folders.names)

    @property
    def is_full(self) -> bool:
        """Whether the rules end the chunk here. A chunk whose end is known is not ended by them."""
        return self.end is None and (self.rows >= self.rules.rows or self.size >= self.rules.size)

    def split(self, offset: int) -> tuple[Chunk, Chunk]:
        """Return the rows below an offset, and the others, as two chunks."""
        chunks = Chunk(self.formats, self.rules), Chunk(self.formats, self.rules)
        for piece in self.pieces:
            at = int(np.searchsorted(piece.offsets, offset))
            for chunk, part in zip(chunks, (piece.slice(0, at), piece.slice(at, len(piece) - at)), strict=True):
                if len(part):
                    chunk.add(part)
        return chunks

    def files(self) -> Iterator[ChunkFile]:
        """Yield the files of the chunk, the lead file first, then in the order of their first offsets."""
        names = {name: code for code, name in enumerate(dict.fromkeys(n for p in self.pieces for n in p.folders.names))}
        codes = [np.array([names[name] for name in piece.folders.names])[piece.folders.codes] for piece in self.pieces]
        offsets = np.concatenate([piece.offsets for piece in self.pieces])
        every = np.concatenate(codes)
        _, firsts = np.unique(every, return_index=True)
        for first in np.sort(firsts).tolist():
            code = int(every[first])
            rows: dict[str, list[pa.Array]] = {part: [] for part in self.formats}
            for piece, of_piece in zip(self.pieces, codes, strict=True):
                chosen = np.flatnonzero(of_piece == code)
                for part, prepared in piece.parts.items():
                    if len(chosen):
                        whole = len(chosen) == len(piece)
                        rows[part].append(prepared.rows if whole else prepared.rows.take(pa.array(chosen)))
            yield ChunkFile(list(names)[code], int(offsets[first]), rows)
