"""Which deletes of a table were read, and which data files each of them names."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Set
from dataclasses import dataclass, field

from spark_connect_rt.connectors.lakehouse.table_port import LoadedTable, Positions, dead_rows_by_file


@dataclass(frozen=True, slots=True)
class KnownDeletes:
    """The deletes of one state of a table: the name of each, and the data files that it names."""

    named: Mapping[str, Set[str]] = field(default_factory=dict)

    def __len__(self) -> int:
        """Return how many deletes there are."""
        return len(self.named)

    def followed(self, loaded: LoadedTable) -> tuple[KnownDeletes, Mapping[str, Positions]]:
        """Return the deletes of a newer state, and by data file the rows of those that it has in addition."""
        now = loaded.deletes()
        found = list(loaded.dead_rows(now - self.named.keys()))
        added: dict[str, set[str]] = {name: set() for name in now if name not in self.named}
        for name, path, _ in found:
            added[name].add(path)
        kept = {name: paths for name, paths in self.named.items() if name in now}
        return KnownDeletes({**kept, **added}), dead_rows_by_file(found)

    def extended(self, committed: Mapping[str, Collection[str]]) -> KnownDeletes:
        """Return these deletes and those of a commit."""
        return KnownDeletes({**self.named, **{name: set(paths) for name, paths in committed.items()}})

    def lost(self, loaded: LoadedTable, paths: Collection[str]) -> bool:
        """Return whether a delete that names one of these data files is not in a state, as after a rollback."""
        gone = self.named.keys() - loaded.deletes()
        return any(not self.named[name].isdisjoint(paths) for name in gone)

    def finished(self, stay: Set[str]) -> list[str]:
        """Return the deletes that name no data file which stays. Others stay: they may name several."""
        return [name for name, paths in self.named.items() if not paths & stay]
