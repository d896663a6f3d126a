"""Runs a program repeatedly and returns its output as records: the task of all sources that are programs.

Owns the order of a run (discover if the catalog is old, read, wait), the consequences of a failed run, and when a
program counts as hung. One thread; the program's own threads are the child's. The output of a run before its failure is
returned. The next run begins at the last state and reads everything after it again: at-least-once.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

import orjson

from spark_connect_rt.api.records import SourceBatch, SourceRecord
from spark_connect_rt.api.task import SourceTask, TransactionContext
from spark_connect_rt.config.config_def import ConfigDef
from spark_connect_rt.connectors.external_process.child_process import Child, ChildFailedError
from spark_connect_rt.connectors.external_process.program import Program, StreamCatalog
from spark_connect_rt.connectors.external_process.program_output import STREAM, Intake
from spark_connect_rt.connectors.external_process.program_settings import TASK_STREAMS
from spark_connect_rt.errors import DataError, ExternalError

POLL_BYTES = 4 << 20
HELD_BYTES = 64 << 20
"""Of output without a state of its stream that is kept back so that transactions may end at states of other streams."""
WAIT_S = 0.1
_IDLE_MS = 100
_SHOWN = 200

log = logging.getLogger(__name__)


class ProgramSourceTask(SourceTask):
    """One program, for some of its streams."""

    definition: ClassVar[ConfigDef]
    program_class: ClassVar[type[Program]]
    clock: Callable[[], float] = staticmethod(time.monotonic)

    def start(self, config: Mapping[str, str]) -> None:
        """Install the program if need be, and read where its streams stand.

        Raises BadConfigError, EnvironmentFailedError, ConnectError (a useless offset).
        """
        values = self.definition.parse(config)
        self._child: Child | None = None
        self._program = self.program_class(values)
        self._program.previewed = self.context.previewed
        self._program.install()
        streams = json.loads(config[f"{self._program.prefix}.{TASK_STREAMS}"])
        stored = self.context.offset_reader.offsets([{STREAM: stream} for stream in streams])
        offsets = {name: offset for name, offset in zip(streams, stored, strict=True) if offset}
        self._intake = Intake(streams, offsets, values["topic"], self._program.row_settings(), self._report)
        self._catalog: StreamCatalog | None = None
        self._catalog_due_s = 0.0
        self._discovering: list[bytes] | None = None
        self._due_s = 0.0
        self._failures = 0
        self._has_failed = False  # since transactions were bounded last
        self._held_bytes = 0  # of output since a transaction could end last
        self._fatal: Exception | None = None
        self._over = False

    def poll(self) -> Sequence[SourceRecord | SourceBatch] | None:
        """Return the program's output since the last poll. Raises the error that ends the task."""
        if self._fatal is not None:
            raise self._fatal
        if self._child is None and not self._begin():
            return None
        ended_well = False
        try:
            ended_well = self._listen()
        except ChildFailedError as error:
            self._fail(error)
        transactions = self.context.transaction_context
        is_over = ended_well or self._has_failed
        keeps = transactions is not None and not is_over and self._held_bytes < HELD_BYTES
        polled = self._intake.take(covered_only=keeps)
        if transactions is not None:
            self._bound(transactions, ended_well)
        return polled or None

    def _bound(self, transactions: TransactionContext, ended_well: bool) -> None:
        """Define where transactions end (connector-defined ones): after states, and after a completed run.

        A transaction ends after a state only if each record in it is covered by a state of the same stream. Other
        records would be committed and read again. The output of a failed run after its last state is read again, so it
        is dropped. A successful run may have sent no state at all; then all of its output counts.

        Raises ExternalError: a run failed, and one end of the transaction would drop or commit too much.
        """
        if self._intake.covered is not None:
            transactions.commit_transaction(self._intake.covered)
            self._held_bytes = 0
        if ended_well:
            transactions.commit_transaction()
        elif self._has_failed:
            if self._intake.withheld:  # an abort keeps the offsets after the dropped records
                self._fatal = ExternalError(
                    f"a run failed in a transaction with records after the last state and more than {HELD_BYTES} "
                    "bytes that no state covers. Restart the task: nothing is lost or delivered twice"
                )
                raise self._fatal
            transactions.abort_transaction()
        if ended_well or self._has_failed:
            self._intake.settle()
            self._held_bytes = 0
        self._has_failed = False

    def idle_wait_ms(self) -> int:
        """Return how long there is nothing to do, at most a moment: a stop must not wait."""
        if self._child is not None:
            return 1  # listening waits by itself
        return max(1, round(min(_IDLE_MS, (self._due_s - self.clock()) * 1000)))  # it may be due at no time

    def has_more(self) -> bool:
        """Return whether the first run is still in progress. A read that ends with the data waits for it."""
        return not self._over

    def stop(self) -> None:
        """End the program with all it started, and remove its files."""
        if getattr(self, "_child", None) is not None:
            self._end_child()
        if hasattr(self, "_program"):
            self._program.close()

    def _begin(self) -> bool:
        """Start the next step if it is due; False: it is not, or cannot be started."""
        if self.clock() < self._due_s:
            return False
        try:
            arguments = None
            if self._catalog is None or self.clock() >= self._catalog_due_s:
                arguments = self._program.discover_arguments()
                self._discovering = None if arguments is None else []
                self._set_catalog(None if arguments is not None else self._program.catalog(b""))
            if arguments is None:
                arguments = self._read_arguments()
            self._child = self._program.start(arguments)
        except ChildFailedError as error:
            self._fail(error)
            return False
        log.info("%s pid=%d %s", self._child.name, self._child.pid, "discovers" if self._is_discovering else "reads")
        return True

    @property
    def _is_discovering(self) -> bool:
        return self._discovering is not None

    def _set_catalog(self, catalog: StreamCatalog | None) -> None:
        self._catalog = catalog
        self._catalog_due_s = self.clock() + self._program.setting("discover.interval.ms") / 1000

    def _read_arguments(self) -> list[str]:
        assert self._catalog is not None
        return self._program.read_arguments(self._catalog, self._intake, self._intake.offsets())

    def _listen(self) -> bool:
        """Process the output so far, up to a poll's worth.

        True: a run has ended successfully. Raises ChildFailedError.
        """
        child = self._child
        assert child is not None
        taken = 0
        while taken < POLL_BYTES:
            lines = child.take(0 if taken else WAIT_S)
            if not lines:
                break
            taken += sum(map(len, lines))
            self._held_bytes += sum(map(len, lines))
            if self._discovering is not None:
                self._discovering += lines
                continue
            for line in lines:
                self._on_line(line)
        return not taken and self._look_after(child)

    def _look_after(self, child: Child) -> bool:
        limit_ms = self._program.setting("silence.timeout.ms")
        if child.ended:
            self._program.judge()
            child.check_exit(self._program.explain(b"\n".join(self._discovering or ())))
            return self._end_step()
        if limit_ms and child.silent_s() * 1000 > limit_ms:
            raise ChildFailedError(f"{child.name} has written nothing for {limit_ms} ms and is stopped as hung")
        return False

    def _on_line(self, line: bytes) -> None:
        """Process one line. A line that begins like an object but is invalid was probably data: it is errant."""
        if not line.lstrip().startswith(b"{"):
            if line.strip():
                log.warning("%s wrote an invalid message: %s", self._name, self._shown(line))
            return
        try:
            message = orjson.loads(line)
            self._program.on_message(message, self._intake)
        except (orjson.JSONDecodeError, DataError, KeyError, TypeError, AttributeError) as error:
            if self._fatal is not None:
                raise
            self._report(f"a line of {self._name}", DataError(f"not a message: {error!r}"), line)

    def _report(self, place: str, error: Exception, data: bytes | None) -> None:
        """Skip a line or an object. Raises the error of the report: then the task is over."""
        try:
            self.context.report_errant(place, error, data)
        except Exception as refusal:
            self._fatal = refusal
            raise

    @property
    def _name(self) -> str:
        return self._child.name if self._child is not None else self._program.prefix

    def _shown(self, line: bytes) -> str:
        return self._program.mask(line[:_SHOWN].decode(errors="replace"))

    def _end_step(self) -> bool:
        """Continue after a program that ended successfully. Returns False after discovery, which reading follows.

        Returns True after reading: the task waits for the next run.
        """
        discovering, self._discovering = self._discovering, None
        self._end_child()
        if discovering is not None:
            self._set_catalog(self._program.catalog(b"\n".join(discovering)))
            return False
        self._program.on_end(self._intake)
        self._failures, self._over = 0, True
        interval_ms = self._program.setting("interval.ms")
        self._due_s = float("inf") if interval_ms < 0 else self.clock() + interval_ms / 1000
        self.context.metrics.count("program-run")
        return True

    def _end_child(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.stop()

    def _fail(self, error: ChildFailedError) -> None:
        """End a failed run; the next one is due after a wait, unless there were too many without a new state."""
        self._discovering = None
        self._end_child()
        if self._intake.take_progress():
            self._failures = 0
        self._failures += 1
        self._has_failed = True
        self.context.metrics.count("program-failure")
        most = self._program.setting("retries.max")
        text = self._program.mask(str(error))
        if self._failures > most:
            setting = f"{self._program.prefix}.retries.max"
            self._fatal = ExternalError(
                f"given up after {self._failures} failed runs in a row ({setting}): {text}", code=error.code
            )
            return
        first_ms, longest_ms = (self._program.setting(f"retry.backoff{suffix}.ms") for suffix in ("", ".max"))
        wait_ms = min(longest_ms, first_ms << min(self._failures - 1, 32))
        log.warning("a run failed, retrying in %d ms: %s", wait_ms, text)
        self._due_s = self.clock() + wait_ms / 1000
