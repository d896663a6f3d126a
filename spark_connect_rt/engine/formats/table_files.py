"""Appends a batch of files to a table folder exactly once, on any Hadoop file system.

A batch is written to a hidden staging folder, then *declared* in a manifest (one atomic rename: the commit point),
then its files are moved into the table. A crash before the manifest leaves nothing; a crash after it is finished
by the next start, which also knows the offsets the table already holds. Tasks that start finish what others declared,
so two may move the same files at the same time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from spark_connect_rt.base.ids import TopicPartition

# Small text files of any Hadoop file system, read through the JVM.


def read_text(jvm: Any, fs: Any, path: Any) -> str:
    """Return the whole UTF-8 text of a file. Raises what the file system raises (Py4JJavaError)."""
    stream = fs.open(path)
    try:
        return str(jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
    finally:
        stream.close()


MANIFEST = "manifest.json"
DRAFT = f"{MANIFEST}.new"
HIDDEN = "_connectrt"  # Spark and Hive skip names that begin with an underscore


@dataclass(frozen=True, slots=True)
class Declared:
    """The last batch: its staging folder, and per partition the offsets the table holds but may not be committed."""

    staging: str
    ranges: Mapping[TopicPartition, tuple[int, int]]  # start included, end excluded
    topic_ids: Mapping[TopicPartition, str] = field(default_factory=dict)  # whose offsets these are, where it is known

    def to_json(self) -> str:
        """Return the text of the manifest, a JSON object."""
        rows = [
            [p.topic, p.partition, start, end, *([self.topic_ids[p]] if p in self.topic_ids else [])]
            for p, (start, end) in sorted(self.ranges.items())
        ]
        return json.dumps({"staging": self.staging, "ranges": rows})

    @classmethod
    def from_json(cls, text: str) -> Declared:
        """Return the manifest in ``text``. Raises ValueError, KeyError: it is invalid."""
        raw = json.loads(text)
        rows = [(TopicPartition(topic, number), rest) for topic, number, *rest in raw["ranges"]]
        ranges = {place: (start, end) for place, (start, end, *_) in rows}
        return cls(raw["staging"], ranges, {place: rest[2] for place, rest in rows if len(rest) > 2})


class TableFiles:
    """The files of one table as one sink task sees them."""

    def __init__(self, spark: Any, path: str, connector: str, task: int) -> None:
        jvm = spark.sparkContext._jvm
        self._path_class = jvm.org.apache.hadoop.fs.Path
        self._table = self._path_class(path)
        self._fs = self._table.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
        self._jvm = jvm
        self._connector_home = self._path_class(self._table, f"{HIDDEN}/{_folder_name(connector)}")
        self._home = self._path_class(self._connector_home, str(task))

    def staging_path(self, name: str) -> str:
        """Return the folder to write batch ``name`` to."""
        return str(self._path_class(self._home, name).toString())

    def declared(self) -> dict[str, Declared]:
        """Return what the manifest of each task of this connector declares, by task number.

        All of them: after a crash a partition may come to another task than the one that wrote it.
        """
        if not self._fs.exists(self._connector_home):
            return {}
        found = {}
        for status in self._fs.listStatus(self._connector_home):
            batch = self._manifest_in(status.getPath())
            if batch is not None:
                found[str(status.getPath().getName())] = batch
        return found

    def own(self) -> Declared | None:
        """Return what the manifest of this task declares."""
        return self._manifest_in(self._home)

    def _manifest_in(self, home: Any) -> Declared | None:
        manifest = self._path_class(home, MANIFEST)
        if not self._fs.exists(manifest):
            return self._draft_in(home)
        try:
            return Declared.from_json(read_text(self._jvm, self._fs, manifest))
        except Exception:
            if self._fs.exists(manifest):
                raise
            return None  # its task runs, and is about to declare the next batch

    def _draft_in(self, home: Any) -> Declared | None:
        """Return a declaration that a crash kept from its name; None: there is none, or it was not written whole."""
        draft = self._path_class(home, DRAFT)
        if not self._fs.exists(draft):
            return None
        try:
            return Declared.from_json(read_text(self._jvm, self._fs, draft))
        except (ValueError, KeyError, TypeError):
            return None
        except Exception:
            if self._fs.exists(draft):
                raise
            return None  # its task runs, and has just renamed it

    def declare(self, batch: Declared) -> None:
        """Make the batch part of the table: after this its files will be moved, by us or by the next start."""
        draft, manifest = self._path_class(self._home, DRAFT), self._path_class(self._home, MANIFEST)
        stream = self._fs.create(draft, True)
        try:
            stream.write(bytearray(batch.to_json().encode()))
            stream.hsync()
        finally:
            stream.close()
        # Not every file system renames over a file. A crash in between leaves the draft, which then counts.
        self._fs.delete(manifest, False)
        if not self._fs.rename(draft, manifest):
            raise OSError(f"could not rename {draft.toString()} to {manifest.toString()}")

    def finish(self, batch: Declared, task: str | None = None) -> int:
        """Move the declared batch's files into the table; safe to repeat. Returns how many moved now.

        Raises OSError: a file is neither moved nor there; all that is not stays staged.
        """
        home = self._home if task is None else self._path_class(self._connector_home, task)
        staging = self._path_class(home, batch.staging)
        files = [file for file in self._staged(staging) if not file.getPath().getName().startswith(("_", "."))]
        moved = sum(map(self._move, files))
        self._fs.delete(staging, True)
        return moved

    def _staged(self, staging: Any) -> Sequence[Any]:
        try:
            return self._fs.listStatus(staging) if self._fs.exists(staging) else ()
        except Exception:
            if self._fs.exists(staging):
                raise
            return ()  # another task finished the batch meanwhile

    def _move(self, file: Any) -> bool:
        source, target = file.getPath(), self._path_class(self._table, file.getPath().getName())
        failure = None
        try:
            if self._fs.rename(source, target):
                return True
        except Exception as error:  # noqa: BLE001 - as the answer False: only the file's place counts
            failure = error
        # Spark gives each file its own name, so a file of that name is this one: another task moved it.
        if self._fs.exists(target) and self._fs.getFileStatus(target).getLen() == file.getLen():
            return False
        raise OSError(f"could not move {source.toString()} to {target.toString()}") from failure

    def forget(self) -> None:
        """Drop manifest and leftovers: every declared offset is committed in the consumer group."""
        self._fs.delete(self._home, True)

    def forget_all(self) -> None:
        """Drop what every task of the connector left."""
        self._fs.delete(self._connector_home, True)

    def drop_leftovers(self, keep: str | None) -> None:
        """Delete staging folders of batches that were never declared."""
        if not self._fs.exists(self._home):
            return
        for status in self._fs.listStatus(self._home):
            if status.isDirectory() and status.getPath().getName() != keep:
                self._fs.delete(status.getPath(), True)


def _folder_name(connector: str) -> str:
    """Return the name of one folder: a connector may be called ``..`` or ``a/0``."""
    name = quote(connector, safe="")
    return name if name.strip(".") else name.replace(".", "%2E")
