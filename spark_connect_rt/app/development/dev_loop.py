"""The loop of ``connectrt dev``: run the connector, show what it does, reload when its files change.

``run_dev`` returns the exit code. Reading clocks and waiting are the only effects of the loop itself.
"""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from spark_connect_rt.api.connector import SinkConnector, SourceConnector
from spark_connect_rt.app.development.broker import Broker
from spark_connect_rt.app.development.given_records import RecordFile
from spark_connect_rt.app.development.project import PYPROJECT, LoadedConnector, Project, is_below
from spark_connect_rt.app.development.runs import DevelopmentRun, SinkRun, SourceRun, named_topics
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.cli.terminal import Terminal
from spark_connect_rt.config.connector_config import topics_that_are_read
from spark_connect_rt.errors import BadConfigError, ConnectError
from spark_connect_rt.plugins.locations import ENTRY_POINTS
from spark_connect_rt.testing.connector_harness import PLAIN_JSON, MemoryOffsets

# Traces for the author of a connector: the lines of the author's own files first, then everything.


Line = tuple[str, str | None]
"""(text, style of the terminal)."""


def failure_lines(error: BaseException, folders: Sequence[Path]) -> list[Line]:
    """Return the lines to show.

    First what failed. Then every line of a file below ``folders`` that took part, the one that raised first. Then the
    whole traceback, unless the error is a sentence of this product and no line of the author's took part.
    """
    chain = list(_chain(error))
    lines: list[Line] = [(f"FAILED  {_named(error)}", "red")]
    if isinstance(error, BadConfigError):
        problems = error.problems.items()
        lines = [("FAILED  the configuration is invalid:", "red")]
        lines += [(f"  {setting}: {why}", None) for setting, reasons in problems for why in reasons]
    own = [line for cause in reversed(chain) for line in _own_lines(cause, folders)]
    if chain[-1] is not error and own:
        lines.append((f"        caused by {_named(chain[-1])}", "red"))
    lines += own
    if own or not isinstance(error, ConnectError):
        lines.append(("the whole traceback:", "faint"))
        text = "".join(traceback.format_exception(error)).rstrip().split("\n")
        lines += [(f"  {line}", "faint") for line in text]
    return lines


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and its causes, the root cause last; each once."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        hidden = current.__suppress_context__
        current = current.__cause__ or (None if hidden else current.__context__)


def _own_lines(error: BaseException, folders: Sequence[Path]) -> Iterator[Line]:
    if isinstance(error, SyntaxError) and error.filename and _is_own(error.filename, folders):
        yield from _place(error.filename, error.lineno, "", error.text, folders)
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if _is_own(frame.filename, folders):
            yield from _place(frame.filename, frame.lineno, f" in {frame.name}", frame.line, folders)


def _place(file: str, number: int | None, where: str, text: str | None, folders: Sequence[Path]) -> Iterator[Line]:
    shown = next((str(Path(file).relative_to(folder)) for folder in folders if Path(file).is_relative_to(folder)), file)
    yield f"  {shown}:{number}{where}", "bold"
    if text and text.strip():
        yield f"      {text.strip()}", None


def _is_own(file: str, folders: Sequence[Path]) -> bool:
    return "site-packages" not in Path(file).parts and any(is_below(file, folder) for folder in folders)


def _named(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


# Which of a project's files changed: their times and sizes, compared every few hundred milliseconds.


Snapshot = Mapping[Path, tuple[int, int]]
"""File -> (time of its last change in ns, size in bytes)."""

# Only sources: files that the connector itself writes into its folder must not reload it.
_NAMES = (PYPROJECT, ENTRY_POINTS)
_LEFT_OUT = ("__pycache__", "node_modules", "site-packages", "build", "dist")


def snapshot(folders: Iterable[Path], files: Iterable[Path] = ()) -> Snapshot:
    """Return the state of the Python files below ``folders``, of their project files and of ``files``.

    Hidden folders and virtual environments are left out, as is a file that disappears meanwhile.
    """
    found: dict[Path, tuple[int, int]] = {}
    for file in (*files, *(file for folder in folders for file in _sources(folder))):
        try:
            stat = file.stat()
        except OSError:
            continue
        found[file] = (stat.st_mtime_ns, stat.st_size)
    return found


def changed_files(before: Snapshot, after: Snapshot) -> list[Path]:
    """Return what was added, changed or removed between two snapshots, sorted."""
    return sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))


def _sources(folder: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if _is_watched(Path(parent, name))]
        yield from (Path(parent, name) for name in names if name.endswith(".py") or name in _NAMES)


def _is_watched(folder: Path) -> bool:
    return not folder.name.startswith(".") and folder.name not in _LEFT_OUT and not (folder / "pyvenv.cfg").exists()


RECORDS_FILE = "records.jsonl"
BOOTSTRAP = "bootstrap.servers"
_LOOK_S = 0.3  # how often the files are looked at


class _End(Enum):
    CHANGED = "changed"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class DevOptions:
    """The options of one command line.

    ``worker``: a worker's settings: converters, ``config.providers``, and with ``bootstrap.servers`` those of clients.
    ``most_records``: end after so many; None: no limit. ``once``: end when nothing is left.
    """

    worker: Mapping[str, str] = field(default_factory=dict)
    records_file: Path | None = None
    once: bool = False
    most_records: int | None = None
    keep_offsets: bool = False

    @property
    def ends(self) -> bool:
        """Whether the command ends by itself: then a failure ends it, too."""
        return self.once or self.most_records is not None


class DevLoop:
    """Runs one project. One thread."""

    def __init__(
        self,
        project: Project,
        options: DevOptions,
        terminal: Terminal,
        wait: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take the project; ``wait`` and ``clock`` count seconds."""
        self._project = project
        self._options = options
        self._terminal = terminal
        self._wait = wait
        self._clock = clock
        self._worker = {**PLAIN_JSON, **options.worker}
        self._offsets = MemoryOffsets()
        self._committed: Mapping[TopicPartition, int] = {}

    def run(self) -> int:
        """Run until Ctrl-C, or as the options say; return the exit code: 1 if the run that ended it failed, else 0."""
        # Python compares a compiled file with its source by whole seconds: a second edit within one would not count.
        written, sys.dont_write_bytecode = sys.dont_write_bytecode, True
        try:
            while True:
                end = self._run_until_it_ends()
                if end is not _End.CHANGED:
                    return 1 if end is _End.FAILED else 0
                self._project.forget()
                if not self._options.keep_offsets:
                    self._offsets, self._committed = MemoryOffsets(), {}
        finally:
            sys.dont_write_bytecode = written

    def _run_until_it_ends(self) -> _End:
        before = self._snapshot()
        run: DevelopmentRun | None = None
        failed = False
        try:
            try:
                run = self._started()
            except (Exception, SystemExit) as error:  # noqa: BLE001 - the author's code
                failed = self._show_failure(error)
            return self._steps(run, before, failed)
        except KeyboardInterrupt:
            self._terminal.line("stopped")
            return _End.DONE
        finally:
            if run is not None:
                self._stop(run)

    def _started(self) -> DevelopmentRun:
        loaded = self._project.load()
        run = self._run_of(loaded)
        self._terminal.line(self._heading(loaded), "bold")
        try:
            run.start()
        except BaseException:
            self._stop(run)
            raise
        return run

    def _steps(self, run: DevelopmentRun | None, before: Mapping[Path, tuple[int, int]], failed: bool) -> _End:
        looked_s = self._clock()
        due_s = looked_s
        while True:
            if (failed or run is None) and self._options.ends:
                return _End.FAILED
            if run is not None and not failed and self._clock() >= due_s:
                try:
                    step = run.step(self._left(run))
                except (Exception, SystemExit) as error:  # noqa: BLE001 - the author's code
                    failed = self._show_failure(error)
                    continue
                if self._left(run) == 0 or (step.is_last and self._options.once):
                    return _End.DONE
                due_s = self._clock() + step.wait_s
            idle_s = _LOOK_S if failed or run is None else max(0.0, min(_LOOK_S, due_s - self._clock()))
            if idle_s:
                self._terminal.out.flush()
                self._wait(idle_s)
            if idle_s or self._clock() - looked_s >= _LOOK_S:
                looked_s = self._clock()
                changes = changed_files(before, self._snapshot())
                if changes:
                    names = ", ".join(path.name for path in changes)
                    self._terminal.line(f"--- {names} changed: reloading", "bold")
                    return _End.CHANGED

    def _left(self, run: DevelopmentRun) -> int | None:
        """Return how many records are still to be shown, None: no limit."""
        most = self._options.most_records
        return None if most is None else max(0, most - run.records)

    def _run_of(self, loaded: LoadedConnector) -> DevelopmentRun:
        broker = Broker(self._client_settings()) if BOOTSTRAP in self._options.worker else None
        if issubclass(loaded.connector_class, SourceConnector):
            return SourceRun(loaded, self._terminal, self._worker, self._offsets, broker)
        if not issubclass(loaded.connector_class, SinkConnector):
            raise ConnectError(
                f"{loaded.connector_class.__name__} is not a connector: it extends neither "
                "SourceConnector nor SinkConnector of spark_connect_rt.api.connector"
            )
        topics_that_are_read(loaded.config)
        given = broker or RecordFile(self._records_file(), next(iter(named_topics(loaded.config)), None))
        run = SinkRun(loaded, self._terminal, self._worker, self._committed, given)
        self._committed = run.committed
        return run

    def _records_file(self) -> Path:
        path = self._options.records_file or self._project.file.parent / RECORDS_FILE
        if not path.is_file():
            raise BadConfigError(
                {
                    str(path): [
                        "does not exist. Write the sink's records into it, one JSON value per line, or use --input"
                    ]
                }
            )
        return path

    def _client_settings(self) -> dict[str, str]:
        prefixes = ("bootstrap.", "ssl.", "sasl.", "security.", "connectrt.oauth.")
        return {name: value for name, value in self._options.worker.items() if name.startswith(prefixes)}

    def _heading(self, loaded: LoadedConnector) -> str:
        where = self._options.worker.get(BOOTSTRAP)
        against = f"broker {where}" if where else "no broker"
        return f"{loaded.name}: {loaded.connector_class.__name__}, {against}, nothing is committed. Ctrl-C ends it."

    def _snapshot(self) -> Mapping[Path, tuple[int, int]]:
        return snapshot(self._project.roots, [self._project.file])

    def _show_failure(self, error: BaseException) -> bool:
        for text, style in failure_lines(error, self._project.folders):
            self._terminal.line(text, style)
        if not self._options.ends:
            self._terminal.line("--- waiting for a change", "bold")
        return True

    def _stop(self, run: DevelopmentRun) -> None:
        try:
            run.stop()
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the author's code
            self._show_failure(error)
