"""Appends a batch of files to a table folder exactly once, on any Hadoop file system.

A batch is written to a hidden staging folder, then *declared* in a manifest (one atomic rename: the commit point),
then its files are moved into the table. A crash before the manifest leaves nothing; a crash after it is finished
by the next start, which also knows the offsets the table already holds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spark_connect_rt.protocol.ids import TopicPartition

HIDDEN = "_connectrt"  # Spark and Hive skip names that begin with an underscore


@dataclass(frozen=True, slots=True)
class Declared:
    """The last batch: its staging folder, and per partition the offsets the table holds but may not be committed."""

    staging: str
    ranges: Mapping[TopicPartition, tuple[int, int]]  # start included, end excluded

    def to_json(self) -> str:
        """Return the manifest's text."""
        rows = [[p.topic, p.partition, start, end] for p, (start, end) in sorted(self.ranges.items())]
        return json.dumps({"staging": self.staging, "ranges": rows})

    @classmethod
    def from_json(cls, text: str) -> Declared:
        """Return the manifest in ``text``."""
        raw = json.loads(text)
        return cls(raw["staging"], {TopicPartition(t, p): (start, end) for t, p, start, end in raw["ranges"]})


class TableFiles:
    """The files of one table as one sink task sees them."""

    def __init__(self, spark: Any, path: str, writer: str) -> None:
        jvm = spark.sparkContext._jvm
        self._path_class = jvm.org.apache.hadoop.fs.Path
        self._table = self._path_class(path)
        self._fs = self._table.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
        self._jvm = jvm
        self._home = self._path_class(self._table, f"{HIDDEN}/{writer}")
        self._manifest = self._path_class(self._home, "manifest.json")

    def staging_path(self, name: str) -> str:
        """Return the folder to write batch ``name`` to."""
        return str(self._path_class(self._home, name).toString())

    def declared(self) -> Declared | None:
        """Return what the manifest declares, None if there is none."""
        if not self._fs.exists(self._manifest):
            return None
        stream = self._fs.open(self._manifest)
        try:
            text = self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8")
        finally:
            stream.close()
        return Declared.from_json(text)

    def declare(self, batch: Declared) -> None:
        """Make the batch part of the table: after this its files will be moved, by us or by the next start."""
        draft = self._path_class(self._home, "manifest.json.new")
        stream = self._fs.create(draft, True)
        try:
            stream.write(bytearray(batch.to_json().encode()))
            stream.hsync()
        finally:
            stream.close()
        self._fs.delete(self._manifest, False)
        if not self._fs.rename(draft, self._manifest):
            raise OSError(f"could not rename {draft.toString()} to {self._manifest.toString()}")

    def finish(self, batch: Declared) -> int:
        """Move the declared batch's files into the table; safe to repeat. Returns how many moved now."""
        staging = self._path_class(self._home, batch.staging)
        moved = 0
        if self._fs.exists(staging):
            for status in self._fs.listStatus(staging):
                name = status.getPath().getName()
                if not name.startswith(("_", ".")):
                    moved += bool(self._fs.rename(status.getPath(), self._path_class(self._table, name)))
            self._fs.delete(staging, True)
        return moved

    def forget(self) -> None:
        """Drop manifest and leftovers: every declared offset is committed in the consumer group."""
        self._fs.delete(self._home, True)

    def drop_leftovers(self, keep: str | None) -> None:
        """Delete staging folders of batches that were never declared."""
        if not self._fs.exists(self._home):
            return
        for status in self._fs.listStatus(self._home):
            if status.isDirectory() and status.getPath().getName() != keep:
                self._fs.delete(status.getPath(), True)
