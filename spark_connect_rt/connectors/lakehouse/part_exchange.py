"""Passes parts of commits between the tasks of a connector, through small files next to the table.

A part that cannot be written, listed or read costs a commit more and nothing else, so errors of files are logged here.
`commit_parts.py` decides, and `TableCommitter` (`table_writer.py`) is the only caller.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.connectors.lakehouse.commit_parts import (
    CommitPart,
    CommitTurns,
    choose_parts,
    decode_part,
    encode_part,
    part_name,
    rank_of,
    rival_parts,
    writer_of,
)
from spark_connect_rt.connectors.lakehouse.table_port import LoadedTable, NewFile
from spark_connect_rt.errors import ConnectError, DataError

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FoundPart:
    """A part of another task that may be committed on a loaded state: its name, itself, and its data files."""

    name: str
    part: CommitPart
    files: Sequence[NewFile]


class PartExchange:
    """The parts of one table, as one task sees them. One thread."""

    def __init__(self, table: str, writer_id: str, turns: CommitTurns) -> None:
        """Take the name of the table, and an id of this task that no other has and that contains no hyphen."""
        self._table, self.writer_id, self.turns = table, writer_id, turns

    def offer(self, loaded: LoadedTable, part: CommitPart) -> bool:
        """Write a part for the others. Returns whether they can see it."""
        try:
            loaded.parts().write(part_name(self.writer_id, part.part_id), encode_part(part))
        except (OSError, ConnectError) as error:
            log.warning("table %s: rows are not shared with other tasks: %s", self._table, error)
            return False
        return True

    def withdraw(self, loaded: LoadedTable, part_id: str) -> bool:
        """Remove an own part, so that no task commits it from now on. Returns whether it is surely gone."""
        return self._remove(loaded, [part_name(self.writer_id, part_id)])

    def rank(self, loaded: LoadedTable) -> int:
        """Return how many other tasks with a part come before this one. 0 if the parts cannot be listed."""
        try:
            return rank_of(loaded.parts().names(), self.writer_id)
        except (OSError, ConnectError) as error:
            log.warning("table %s: parts of other tasks cannot be listed: %s", self._table, error)
            return 0

    def gather(self, loaded: LoadedTable, taken: Collection[TopicPartition]) -> list[FoundPart]:
        """Return the parts of other tasks that hold on this state, and remove those that never will.

        The state must be loaded before this call. A task withdraws its part before it deletes the part's files, so a
        part that is listed after the load and holds on the state has its files.

        Args:
            taken: partitions that are in the commit anyway.
        """
        parts = self._parts(loaded)
        chosen = choose_parts(loaded.offsets, loaded.table_id, parts, taken)
        self._remove(loaded, chosen.finished)
        found = []
        for name in chosen.accepted:
            try:
                files = [loaded.unpack(packed) for packed in parts[name].files]
            except DataError as error:
                log.warning("table %s: part %s is left to its own task: %s", self._table, name, error)
            else:
                found.append(FoundPart(name, parts[name], files))
        return found

    def finish(self, loaded: LoadedTable, part_id: str, found: Sequence[FoundPart]) -> None:
        """Remove the own part and others that are in the table now."""
        self._remove(loaded, [part_name(self.writer_id, part_id), *(other.name for other in found)])

    def claim(self, loaded: LoadedTable, places: Collection[TopicPartition]) -> None:
        """Remove parts of former owners of partitions, because this task reads their records again."""
        rivals = rival_parts(self._parts(loaded), places)
        if rivals:
            log.info("table %s: %d parts of former owners are removed", self._table, len(rivals))
            self._remove(loaded, rivals)

    def _parts(self, loaded: LoadedTable) -> dict[str, CommitPart]:
        """Return the parts of other tasks by name. Those that are being written, or are unreadable, are left out."""
        found = {}
        try:
            folder = loaded.parts()
            for name in folder.names():
                if writer_of(name) == self.writer_id:
                    continue
                content = folder.read(name)
                if content is not None:
                    try:
                        found[name] = decode_part(content, name)
                    except DataError as error:
                        log.info("table %s: %s", self._table, error)
        except (OSError, ConnectError) as error:
            log.warning("table %s: parts of other tasks cannot be read: %s", self._table, error)
        return found

    def _remove(self, loaded: LoadedTable, names: Collection[str]) -> bool:
        try:
            loaded.parts().remove(names)
        except (OSError, ConnectError) as error:
            log.warning("table %s: %d parts could not be removed: %s", self._table, len(names), error)
            return False
        return True
