"""The checkpoint folder of a stream, kept in step with the source offset: the offset decides, the folder follows.

A batch's own offset is in ``offsets/<batch>`` before Spark runs the batch; ``commits/<batch>`` says that it ran.
Formats: Spark's ``OffsetSeqLog`` and ``CommitLog``, version 1. On any Hadoop file system.
A user names the folder: it is cleared only when it is known as this connector's, and only of a checkpoint's parts.
"""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Mapping
from typing import Any

from spark_connect_rt.engine.formats.table_files import read_text
from spark_connect_rt.errors import BadConfigError, ConnectError

VERSION = "v1"
COMMIT = f'{VERSION}\n{{"nextBatchWatermarkMs":0}}'
METADATA = '{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{}}'
PARTS = ("offsets", "commits", "metadata", "sources", "state")  # the folders and files that Spark writes there
OWNER = "connectrt-owner"  # a file that names the connector; Spark does not look at it
FILE_LOG = "logOffset"  # the offset of a stream of files: a number in a log that only the checkpoint holds
log = logging.getLogger(__name__)


class StreamCheckpoint:
    """The checkpoint folder of one connector's stream, on any file system that Spark reaches."""

    def __init__(self, spark: Any, folder: str, connector: str) -> None:
        self._jvm = spark.sparkContext._jvm
        self._path = self._jvm.org.apache.hadoop.fs.Path
        self._home = self._path(folder)
        self._fs = self._home.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
        self._connector = connector

    def prepare(self, stored: Mapping[str, Any] | None) -> None:
        """Have the stream resume after the stored offset, ``{"batch": n, "offset": its own}``; None: from the start.

        A checkpoint that is ahead is set back, one that is lost or of another offset is rebuilt; of files, whose
        log is lost with it, everything is read again. Raises BadConfigError: the folder belongs to another connector.
        """
        self._claim(stored)
        if stored is None:
            self._clear()
            return
        batch, offset = stored["batch"], stored["offset"]
        if self._offset_of(batch) == offset:
            self._set_back(batch)
        elif isinstance(offset, dict) and set(offset) == {FILE_LOG}:
            log.warning(
                "checkpoint %s does not match offset %s, reading every file again", self._home.toString(), offset
            )
            self._clear()
        else:
            self._clear()
            self._write_offset(batch, offset)
            self._set_back(batch)

    def offset_of(self, batch: int) -> dict[str, Any]:
        """Return the source offset behind a batch. Raises ConnectError: the checkpoint does not know it."""
        offset = self._offset_of(batch)
        if offset is None:
            raise ConnectError(f"checkpoint {self._home.toString()} has no offset of batch {batch}")
        return {"batch": batch, "offset": offset}

    def _claim(self, stored: Mapping[str, Any] | None) -> None:
        """Make the folder this connector's: a new or empty one, or one that holds the very offset that is stored."""
        names = self._names()
        owner = read_text(self._jvm, self._fs, self._path(self._home, OWNER)).strip() if OWNER in names else None
        if owner == self._connector:
            return
        if owner is not None:
            self._refuse(f"belongs to connector {owner}")
        if names and (stored is None or self._offset_of(stored["batch"]) != stored["offset"]):
            self._refuse(f"is not empty and not a checkpoint of connector {self._connector}")
        self._write(OWNER, self._connector)

    def _refuse(self, why: str) -> None:
        complaint = f"{self._home.toString()} {why}. Nothing there is deleted. Use a new or an empty folder"
        raise BadConfigError({"spark.checkpoint": [complaint]})

    def _names(self) -> set[str]:
        statuses = self._fs.listStatus(self._home) if self._fs.exists(self._home) else ()
        return {str(status.getPath().getName()) for status in statuses}

    def _clear(self) -> None:
        for part in PARTS:
            self._fs.delete(self._path(self._home, part), True)

    def _set_back(self, batch: int) -> None:
        """Let ``batch`` be the last one that ran; Spark wants to see the one before it, too."""
        for kind in ("offsets", "commits"):
            folder = self._path(self._home, kind)
            for status in self._fs.listStatus(folder) if self._fs.exists(folder) else ():
                name = str(status.getPath().getName())
                if name.isdigit() and int(name) > batch:
                    self._fs.delete(status.getPath(), False)
        if batch > 0 and self._offset_of(batch - 1) is None:
            self._write_offset(batch - 1, self._offset_of(batch))
        self._write(f"commits/{batch}", COMMIT)
        if not self._fs.exists(self._path(self._home, "metadata")):
            self._write("metadata", json.dumps({"id": str(uuid.uuid4())}))  # a query without it is refused

    def _offset_of(self, batch: int) -> Any:
        path = self._path(self._home, f"offsets/{batch}")
        if not self._fs.exists(path):
            return None
        text = read_text(self._jvm, self._fs, path)
        lines = text.splitlines()
        if len(lines) != 3 or lines[0] != VERSION:
            raise ConnectError(f"{path.toString()} does not contain what Spark wrote so far: {text[:200]!r}")
        return json.loads(lines[2])

    def _write_offset(self, batch: int, offset: Any) -> None:
        own = json.dumps(offset, separators=(",", ":"))
        self._write(f"offsets/{batch}", f"{VERSION}\n{METADATA}\n{own}")

    def _write(self, name: str, text: str) -> None:
        stream = self._fs.create(self._path(self._home, name), True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
