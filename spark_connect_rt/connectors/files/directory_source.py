"""The files of a directory as records: CSV, JSON lines, Parquet; each file is read once, then left, moved or deleted.

Offsets are ``{"file": path}`` -> ``{"line": lines, "position": bytes}`` or ``{"row": rows}``, each with the file's size
and time, which distinguish another file of the same name. A file is finished only when the stored offset shows that its
last row was returned. Then its rows are in the topic, and no restart reads it again.
"""

from __future__ import annotations

import fnmatch
import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from spark_connect_rt.api.connector import ExactlyOnceSupport, SourceConnector, SourceOffset
from spark_connect_rt.api.data.schema import Schema
from spark_connect_rt.api.records import SourceBatch
from spark_connect_rt.api.task import SourceTask
from spark_connect_rt.base.json_text import tellable
from spark_connect_rt.config.config_def import HIGH, LOW, MEDIUM, REQUIRED, ConfigDef, ConfigKey, Type
from spark_connect_rt.config.java_regex import java_pattern
from spark_connect_rt.config.validators import AtLeast, java_regex, non_empty, one_of
from spark_connect_rt.connectors.file_stores import STORE_ACCESS, is_remote, local_path, open_store
from spark_connect_rt.connectors.files.delimited_file_source import rows_batch
from spark_connect_rt.connectors.files.delimited_rows import DelimitedRows
from spark_connect_rt.connectors.files.delimited_settings import ROWS, checked_rows, row_problems
from spark_connect_rt.connectors.files.directory_files import (
    HIDDEN,
    DirectoryFiles,
    Folder,
    FoundFile,
    LocalFolder,
    share_of,
)
from spark_connect_rt.connectors.files.file_problems import content_problem
from spark_connect_rt.connectors.files.store_folder import StoreFolder, bucket_of
from spark_connect_rt.connectors.record_times import timed
from spark_connect_rt.errors import BadConfigError, ConnectError, DataError, RetriableError
from spark_connect_rt.records.pipeline.arrow_values import RowColumns

# The settings of the directory source.


TASK, TASKS = "directory.task", "directory.tasks"  # of a task's configuration: its number, and of how many
_TARGETS = ("file.done.directory", "file.error.directory")
LEAVE, DELETE, MOVE, RENAME = "leave", "delete", "move", "rename"

CONFIG = (
    ConfigDef(
        [
            ConfigKey(
                "directory",
                Type.STRING,
                REQUIRED,
                HIGH,
                "Folder of the files: a path, or s3://bucket/folder, gs://, abfs://. Subfolders are not read.",
                non_empty,
            ),
            ConfigKey("topic", Type.STRING, REQUIRED, HIGH, "Topic that the rows are sent to.", non_empty),
            ConfigKey(
                "format",
                Type.STRING,
                "csv",
                HIGH,
                "csv: delimited rows. jsonl: one JSON object per line. parquet: columns and types of the file.",
                one_of("csv", "jsonl", "parquet", ignore_case=True),
            ),
            ConfigKey(
                "file.pattern",
                Type.STRING,
                "*",
                HIGH,
                "Pattern of file names to read, with * ? and [abc]. Names that begin with . or _ are never read.",
                non_empty,
            ),
            ConfigKey(
                "file.regex",
                Type.STRING,
                None,
                LOW,
                "Regular expression that the whole name must also match.",
                java_regex,
            ),
            ConfigKey(
                "file.order",
                Type.STRING,
                "name",
                MEDIUM,
                "Order of the files of a task: by name, or by modification time.",
                one_of("name", "modified", ignore_case=True),
            ),
            ConfigKey(
                "file.settle.ms",
                Type.LONG,
                1_000,
                MEDIUM,
                "How long size and time of a file must stay the same before it is read, ms, so that no "
                "half-written file is read. 0: read it immediately, for files that are moved here complete.",
                AtLeast(0),
            ),
            ConfigKey(
                "poll.interval.ms", Type.LONG, 1_000, MEDIUM, "Time between polls of the directory, ms.", AtLeast(1)
            ),
            ConfigKey(
                "file.done",
                Type.STRING,
                LEAVE,
                HIGH,
                "The treatment of a file once all of its rows are acknowledged and its offset is stored. leave: it "
                "stays, and is read again only if it changes.",
                one_of(LEAVE, DELETE, MOVE, RENAME, ignore_case=True),
            ),
            ConfigKey("file.done.directory", Type.STRING, None, MEDIUM, "Folder that file.done=move moves files to."),
            ConfigKey(
                "file.done.suffix",
                Type.STRING,
                ".done",
                LOW,
                "Suffix that file.done=rename adds to the name.",
                non_empty,
            ),
            ConfigKey(
                "file.error.directory",
                Type.STRING,
                None,
                MEDIUM,
                "Folder for files that cannot be read or have a row that is not tolerated. Reading continues with "
                "the next file. Not set: errors.tolerance decides, and all leaves the file where it is.",
            ),
        ]
    )
    + ROWS
    + STORE_ACCESS
)


def folder_of(directory: str, config: Mapping[str, str]) -> Folder:
    """Return the folder of the files. Raises BadConfigError, ConnectError: the client of the store is missing."""
    if not is_remote(directory):
        return LocalFolder(local_path(directory))
    return StoreFolder(directory, open_store(bucket_of(directory), config))


def _folder_problems(directory: str, targets: Mapping[str, str | None]) -> dict[str, list[str]]:
    """Return problems of the folders that files are moved to, setting -> reasons."""
    if not is_remote(directory):
        return {}
    bucket = bucket_of(directory)
    return {
        name: [f"must be a folder of the same bucket, such as {bucket}/done"]
        for name, target in targets.items()
        if target and bucket_of(target) != bucket
    }


def checked(config: Mapping[str, str]) -> dict[str, Any]:
    """Return the typed settings. Raises BadConfigError."""
    values = checked_rows(CONFIG, config)
    for name in ("file.order", "file.done"):
        values[name] = values[name].lower()
    if values["file.done"] == MOVE and not values["file.done.directory"]:
        raise BadConfigError({"file.done.directory": ["must be set with file.done=move"]})
    if problems := _folder_problems(values["directory"], {name: values[name] for name in _TARGETS}):
        raise BadConfigError(problems)
    return values


def problems(config: Mapping[str, str]) -> dict[str, list[str]]:
    """Return problems of settings against each other."""
    found = row_problems(CONFIG, config)
    moves = (config.get("file.done") or "").lower() == MOVE
    if moves and not config.get("file.done.directory"):
        found["file.done.directory"] = ["must be set with file.done=move"]
    found |= _folder_problems(config.get("directory") or "", {name: config.get(name) for name in _TARGETS})
    return found


def name_filter(values: Mapping[str, Any], config: Mapping[str, str]) -> Callable[[str], bool]:
    """Return which file names are this task's."""
    regex = None if values["file.regex"] is None else java_pattern(values["file.regex"])
    suffix = values["file.done.suffix"] if values["file.done"] == RENAME else None
    task, tasks = int(config.get(TASK, "0")), int(config.get(TASKS, "1"))

    def wanted(name: str) -> bool:
        return (
            not name.startswith(HIDDEN)
            and not (suffix and name.endswith(suffix))
            and fnmatch.fnmatchcase(name, values["file.pattern"])
            and (regex is None or regex.fullmatch(name) is not None)
            and share_of(name, tasks) == task
        )

    return wanted


# The rows of one Parquet file in order, by the batch, each with the row from which reading resumes.


BATCH_ROWS = 8_192


class ParquetRows:
    """Reads one complete file. ``row`` counts the returned rows."""

    def __init__(self, path: str, row: int = 0, open_file: Callable[[str], Any] = lambda path: path) -> None:
        """Open the file. ``open_file`` returns what pyarrow opens.

        Raises DataError: it is not a Parquet file, or a column has no Connect form.
        Raises RetriableError: it cannot be read just now.
        """
        self.row = row
        self._path = path
        try:
            self._file: Any = pq.ParquetFile(open_file(path))
            self._columns = RowColumns(self._file.schema_arrow)
        except OSError as error:
            raise content_problem(path, "cannot be read", error) from error
        except (pa.ArrowException, DataError) as error:
            raise DataError(f"file {path}: {error}") from None
        self._batches = self._from(row)

    @property
    def schema(self) -> Schema:
        """The Connect schema of a row."""
        return self._columns.schema

    def next(self) -> pa.StructArray | None:
        """Return the next rows; None: that was all. Raises DataError: the rest of the file is unreadable."""
        try:
            batch = next(self._batches, None)
            rows = None if batch is None else self._columns.structs(batch)
        except OSError as error:
            raise content_problem(self._path, f"after row {self.row} cannot be read", error) from error
        except pa.ArrowException as error:
            raise DataError(f"file {self._path} after row {self.row}: {error}") from None
        if rows is not None:
            self.row += len(rows)
        return rows

    def close(self) -> None:
        """Close the file, if it is open."""
        self._file.close()

    def _from(self, row: int) -> Iterator[pa.RecordBatch]:
        """Yield the batches after ``row``; row groups before it are not read."""
        metadata, skip = self._file.metadata, row
        groups: list[int] = []
        for group in range(metadata.num_row_groups):
            group_rows = metadata.row_group(group).num_rows
            if groups or skip < group_rows:
                groups.append(group)
            else:
                skip -= group_rows
        for batch in self._file.iter_batches(BATCH_ROWS, row_groups=groups) if groups else ():
            if skip >= batch.num_rows:
                skip -= batch.num_rows
                continue
            yield batch.slice(skip)
            skip = 0


FILE, ROW, LINE, POSITION, SIZE, MODIFIED = "file", "row", "line", "position", "size", "modified"
STORED_CHECK_MS = 1_000  # between questions whether the offsets of files that are read are stored by now
IDLE_WAIT_MS = 100
log = logging.getLogger(__name__)


class DirectorySourceConnector(SourceConnector):
    """Reads each file of a directory once: CSV, JSON lines or Parquet.

    Any number of tasks; each file belongs to one of them, by a hash of its name.
    """

    def config_def(self) -> ConfigDef:
        """Return the declarations of this connector's settings."""
        return CONFIG

    def task_class(self) -> type[Any]:
        """Return the class of its tasks."""
        return DirectorySourceTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """Return a configuration for each task, with its number."""
        numbers = {TASKS: str(max_tasks)}
        return [{**self.config, **numbers, TASK: str(task)} for task in range(max_tasks)]

    def validate(self, config: Mapping[str, str]) -> Mapping[str, list[str]]:
        """Check settings against each other."""
        return problems(config)

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport:
        """Offsets name the last row of each batch."""
        return ExactlyOnceSupport.SUPPORTED

    def alter_offsets(self, config: Mapping[str, str], offsets: Sequence[SourceOffset]) -> bool:
        """Check the new offsets. Raises ConnectError."""
        for partition, offset in offsets:
            if offset is None:
                continue  # every stored offset may be removed
            if not isinstance((partition or {}).get(FILE), str):
                raise ConnectError(f"a source partition must be {{'{FILE}': path}}, got {partition}")
            wanted = (ROW,) if config.get("format", "csv").lower() == "parquet" else (LINE, POSITION)
            for name in wanted:
                _count(offset, name)
        return True


class DirectorySourceTask(SourceTask):
    """Reads this task's share of the files, one after another; in a preview it leaves them where they are."""

    clock: Callable[[], int] = staticmethod(lambda: time.monotonic_ns() // 1_000_000)

    def start(self, config: Mapping[str, str]) -> None:
        """Take the settings. Raises BadConfigError."""
        self._values = checked(config)
        wanted = name_filter(self._values, config)
        self._folder = folder_of(self._values["directory"], config)
        self._files = DirectoryFiles(self._folder, wanted, self._values["file.settle.ms"])
        self._waiting: deque[tuple[FoundFile, Mapping[str, Any] | None]] = deque()  # with their stored offsets
        self._reading: _Reading | None = None
        # Read, or bad from somewhere on, while the last offset is on its way: -> file, that offset, whether it is bad.
        self._unstored: dict[str, tuple[FoundFile, Mapping[str, Any], bool]] = {}
        self._done: dict[str, FoundFile] = {}  # read, and left where they are
        self._look_at_ms = self._check_at_ms = self.clock()

    @timed
    def poll(self) -> Sequence[SourceBatch] | None:
        """Return the next rows of the next file, None when there are none."""
        self._finish_stored()
        if self._reading is None and not self._open_next():
            return None
        assert self._reading is not None
        found = self._reading.found
        try:
            pieces = self._reading.next()
        except RetriableError:
            self._waiting.appendleft((found, self._reading.reached))
            self._close()
            raise
        except (DataError, ConnectError) as error:
            self._give_up(found, error)
            return None
        if pieces is None:
            self._end_of(found, bad=False)
        return pieces

    def idle_wait_ms(self) -> int:
        """Return a short wait while there is a file to read."""
        return 1 if self._reading is not None or self._waiting else IDLE_WAIT_MS

    def stop(self) -> None:
        """Close the file, if it is open."""
        if hasattr(self, "_reading"):
            self._close()

    def _close(self) -> None:
        if self._reading is not None:
            self._reading.close()
            self._reading = None

    def _open_next(self) -> bool:
        """Begin the next file; False: there is none."""
        if not self._waiting:
            self._look()
        while self._waiting and self._reading is None:
            found, offset = self._waiting.popleft()
            try:
                self._reading = _Reading(found, self._values, offset, self.context.report_errant, self._folder)
            except RetriableError:
                self._waiting.appendleft((found, offset))
                raise
            except (DataError, ConnectError) as error:
                self._give_up(found, error)
        return self._reading is not None

    def _look(self) -> None:
        """Queue the new files of the directory. Their stored offsets are read with one call."""
        if self.clock() < self._look_at_ms:
            return
        self._look_at_ms = self.clock() + self._values["poll.interval.ms"]
        settled = self._files.settled(self.clock())
        new = [file for file in settled if self._done.get(file.path) != file and file.path not in self._unstored]
        self._done = {file.path: file for file in settled if self._done.get(file.path) == file}
        by_time = self._values["file.order"] == "modified"
        new.sort(key=lambda file: (file.modified_ms, file.path) if by_time else (0, file.path))
        if new:
            offsets = self.context.offset_reader.offsets([{FILE: tellable(file.path)} for file in new])
            self._waiting.extend(zip(new, offsets, strict=True))

    def _end_of(self, found: FoundFile, *, bad: bool) -> None:
        """Close the file that is read. It is moved or deleted once the offset of its returned rows is stored."""
        reading, self._reading = self._reading, None
        if reading is not None:
            reading.close()
        if not bad and reading is not None and reading.gave_nothing:
            log.warning(
                "file %s has %d bytes but no rows: it stays where it is and is read again only if it changes",
                found.path,
                found.size_bytes,
            )
            self._done[found.path] = found
        elif reading is None or reading.last_offset is None:  # nothing was: there is nothing to wait for
            self._finish(found, bad)
        else:
            self._unstored[found.path] = (found, reading.last_offset, bad)

    def _finish_stored(self) -> None:
        """Finish the files whose last offset is stored."""
        if not self._unstored or self.clock() < self._check_at_ms:
            return
        self._check_at_ms = self.clock() + STORED_CHECK_MS
        read = list(self._unstored.values())
        offsets = self.context.offset_reader.offsets([{FILE: tellable(found.path)} for found, *_ in read])
        for (found, last_offset, bad), stored in zip(read, offsets, strict=True):
            if stored == last_offset:
                self._finish(found, bad)
                del self._unstored[found.path]

    def _finish(self, found: FoundFile, bad: bool) -> None:
        done, path = self._values["file.done"], found.path
        if not self._folder.is_as_found(found):
            log.warning("file %s was changed after it was read, reading it again", path)
            return
        if self.context.previewed:  # the files are the running connector's
            self._done[path] = found
            return
        if bad:
            self._folder.move_into(path, self._values["file.error.directory"])
            return
        if done == DELETE:
            self._folder.delete(path)
        elif done == MOVE:
            self._folder.move_into(path, self._values["file.done.directory"])
        elif done == RENAME:
            self._folder.rename(path, self._values["file.done.suffix"])
        else:
            self._done[path] = found
        log.info("file %s is read: %s", path, done)

    def _give_up(self, found: FoundFile, error: ConnectError) -> None:
        """Put a bad file aside. Raises DataError: there is no place for it, and it is not tolerated."""
        if not self._folder.is_as_found(found):
            log.warning("file %s was changed or deleted while it was read: %s", found.path, error)
            self._close()
            return  # the next check shows its present state
        if self._values["file.error.directory"] and not self.context.previewed:
            log.error("moving file %s to %s: %s", found.path, self._values["file.error.directory"], error)
            self._end_of(found, bad=True)
            return
        self._close()
        if isinstance(error, DataError) and error.stage is not None:
            raise error  # a row that is not tolerated, reported already
        self.context.report_errant(f"file {found.path}", error)
        self._done[found.path] = found


class _Reading:
    """One file on its way."""

    def __init__(
        self,
        found: FoundFile,
        values: Mapping[str, Any],
        offset: Mapping[str, Any] | None,
        report_errant: Any,
        folder: Folder,
    ) -> None:
        self.found = found
        self.last_offset: Mapping[str, Any] | None = None
        self._values = values
        if offset is not None and not _is_of(offset, found):
            log.warning("file %s is not the file of its stored offset, reading it from its beginning", found.path)
            offset = None
        self.reached = offset  # the offset from which a restart of the file resumes
        self._rows: ParquetRows | DelimitedRows
        if values["format"] == "parquet":
            self._rows = ParquetRows(found.path, _count(offset, ROW), folder.parquet)
        else:
            place = _count(offset, POSITION), _count(offset, LINE)
            self._rows = DelimitedRows(found.path, values, *place, report_errant, whole=True, make_input=folder.input)

    def next(self) -> Sequence[SourceBatch] | None:
        """Return the next rows, empty where they were unreadable; None: that was all."""
        rows = self._rows.next()
        if rows is None or not len(rows):
            return None if rows is None else ()
        key = self._values["key.field"]
        if key is not None and rows.type.get_field_index(key) < 0:
            raise ConnectError(f"file {self.found.path}: column {key} does not exist (setting 'key.field')")
        self.last_offset = self.reached = self._offset()
        schema = self._rows.schema
        assert schema is not None
        return [rows_batch(self._values, {FILE: tellable(self.found.path)}, self.last_offset, schema, rows)]

    @property
    def gave_nothing(self) -> bool:
        """Whether the file has bytes, and neither this nor an earlier run had a row of it, good or unreadable.

        A Parquet file shows itself that it has none.
        """
        rows = self._rows
        unread = self.found.size_bytes > 0 and self.reached is None
        return isinstance(rows, DelimitedRows) and unread and not rows.given_up

    def close(self) -> None:
        self._rows.close()

    def _offset(self) -> dict[str, Any]:
        rows = self._rows
        place = {ROW: rows.row} if isinstance(rows, ParquetRows) else {LINE: rows.line, POSITION: rows.position}
        return {**place, SIZE: self.found.size_bytes, MODIFIED: self.found.modified_ms}


def _is_of(offset: Mapping[str, Any], found: FoundFile) -> bool:
    """Return whether an offset belongs to this very file. An offset that a user wrote may lack size and time."""
    here = {SIZE: found.size_bytes, MODIFIED: found.modified_ms}
    return all(offset.get(name, value) == value for name, value in here.items())


def _count(offset: Mapping[str, Any] | None, name: str) -> int:
    """Return a count of an offset, 0 where there is no offset. Raises ConnectError: the count is invalid."""
    count = 0 if offset is None else offset.get(name)
    if isinstance(count, bool) or not isinstance(count, int) or count < 0:
        raise ConnectError(f"the offset must have '{name}', a whole number that is not negative, not {count!r}")
    return count
