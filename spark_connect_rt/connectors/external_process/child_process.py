"""A program that writes lines: started in a separate process group, read by threads, ended with all its children.

Owns the process and two threads. One puts lines of its output into a bounded queue, so that a slow reader slows the
program down. The other logs its error output, with secrets masked. ``take`` notices the end of either thread.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pkgutil
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from spark_connect_rt.errors import ExternalError

GUARD = "guard.py"
CHUNK_BYTES = 1 << 20
QUEUE_BYTES = 16 << 20
SMALL_BYTES = 64 << 10
LINGER_S = 0.01
END_LIMIT_S = 5.0
_LAST_LINES = 20
_LOGGED_BYTES = 4_000  # of one line of error output
_SET_PIPE_SIZE = 1031  # F_SETPIPE_SZ

log = logging.getLogger(__name__)
Mask = Callable[[str], str]


class ChildFailedError(ExternalError):
    """A program cannot be started, was killed, ended badly, hangs, or writes a line without end."""

    code = "CRT-1171"


class Child:
    """One running program. ``take`` and ``stop`` are the owner's thread."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        folder: Path,
        mask: Mask = str,
        line_limit_bytes: int = 64 << 20,
    ) -> None:
        """Start it in ``folder``, which is the caller's own; ``command[0]`` is a whole path.

        Raises ChildFailedError: it cannot be started. It ends with the thread that started it, at the latest.
        """
        self.name = Path(command[0]).name
        self._log = logging.getLogger(f"{__name__}.{self.name}")
        self._mask = mask
        self._line_limit_bytes = line_limit_bytes
        self._changed = threading.Condition()
        self._queue: deque[list[bytes]] = deque()
        self._queued_bytes = 0
        self._reading_over = False
        self._stopping = False
        self._failure = ""
        self._last_lines: deque[str] = deque(maxlen=_LAST_LINES)
        self._sign_of_life_s = time.monotonic()
        guarded = [sys.executable, "-I", "-S", str(_guard_in(folder)), str(os.getpid()), *command]
        try:
            self._process = subprocess.Popen(
                guarded,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=dict(environment),
                cwd=folder,
                start_new_session=True,
            )
        except OSError as error:
            raise ChildFailedError(f"{self.name} cannot be started: {error}") from error
        self._reader = self._thread("output", self._read_output)
        self._logger = self._thread("errors", self._read_errors)

    @property
    def pid(self) -> int:
        """Return the process id, which is also its group's."""
        return self._process.pid

    def take(self, wait_s: float) -> list[bytes]:
        """Return new lines, without their ends; empty: none within ``wait_s``, or ``ended``.

        Raises ChildFailedError: a line is too long, or the thread that reads has ended.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._reading_over, wait_s)
            if self._queue:
                lines = self._queue.popleft()
                self._queued_bytes -= _size(lines)
                self._changed.notify_all()
                return lines
        if self._failure:
            raise ChildFailedError(f"{self.name}: {self._failure}")
        if not self._reader.is_alive() and not self._reading_over:
            raise ChildFailedError(f"{self.name}: the thread that reads its output has ended")
        return []

    @property
    def ended(self) -> bool:
        """Whether it has ended and every line of it was taken."""
        with self._changed:
            if not self._reading_over or self._queue:
                return False
        return self._process.poll() is not None

    def silent_s(self) -> float:
        """Return for how long it has written nothing at all, though it was not held up, s."""
        with self._changed:
            held_up = self._queued_bytes >= QUEUE_BYTES
        return 0.0 if held_up else time.monotonic() - self._sign_of_life_s

    def check_exit(self, said: str = "") -> None:
        """Return when it ended successfully.

        Raises ChildFailedError with its exit code, its errors and its last lines.
        """
        self._logger.join(END_LIMIT_S)
        code = self._process.returncode
        if code:
            raise ChildFailedError(
                f"{self.name} {_words_of(code)}{said and f'; it says {self._mask(said)}'}{self._wrote_last()}"
            )

    def stop(self) -> None:
        """End it and all of its process group, and collect it."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        self._signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(END_LIMIT_S)
        self._signal(signal.SIGKILL)  # also its children that it did not end
        self._process.wait()
        for thread in (self._reader, self._logger):
            thread.join(END_LIMIT_S)
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    def _thread(self, what: str, run: Callable[[], None]) -> threading.Thread:
        thread = threading.Thread(target=run, name=f"child-{what}-{self.pid}", daemon=True)
        thread.start()
        return thread

    def _read_output(self) -> None:
        try:
            self._read_lines()
        except Exception as error:
            log.exception("%s: reading its output failed", self.name)
            self._failure = f"reading its output failed: {error}"
        finally:
            with self._changed:
                self._reading_over = True
                self._changed.notify_all()

    def _read_lines(self) -> None:
        assert self._process.stdout is not None
        source = self._process.stdout.fileno()
        _widen(source)
        rest: list[bytes] = []  # of a line without an end so far
        rest_bytes = 0
        while chunk := os.read(source, CHUNK_BYTES):
            self._sign_of_life_s = time.monotonic()
            complete, newline, tail = chunk.rpartition(b"\n")
            if newline:
                self._put(b"".join([*rest, complete]).split(b"\n"))
                rest, rest_bytes = [], 0
            rest.append(tail)
            rest_bytes += len(tail)
            if rest_bytes > self._line_limit_bytes:
                self._failure = f"it wrote a line of more than {self._line_limit_bytes} bytes and is stopped"
                self._signal(signal.SIGKILL)
                return
            if self._stopping:
                return
            if len(chunk) < SMALL_BYTES:  # most programs flush each line: let some collect in the pipe
                time.sleep(LINGER_S)
        if rest_bytes:
            self._put([b"".join(rest)])

    def _put(self, lines: list[bytes]) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._queued_bytes < QUEUE_BYTES or self._stopping)
            self._queue.append(lines)
            self._queued_bytes += _size(lines)
            self._changed.notify_all()
        self._sign_of_life_s = time.monotonic()

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        try:
            while line := self._process.stderr.readline(CHUNK_BYTES):
                self._sign_of_life_s = time.monotonic()
                text = self._mask(line[:_LOGGED_BYTES].decode(errors="replace").rstrip())
                self._last_lines.append(text)
                self._log.info("pid=%d: %s", self.pid, text)
        except Exception:  # the program continues: its error output contains no data
            log.exception("%s: reading its error output failed", self.name)

    def _wrote_last(self) -> str:
        return "; it wrote last:\n" + "\n".join(self._last_lines) if self._last_lines else ""


def run_to_end(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    folder: Path,
    mask: Mask,
    limit_s: float,
    explain: Callable[[bytes], str],
) -> bytes:
    """Run a program and return its whole output; ``explain`` finds in that why it failed.

    Raises ChildFailedError: it fails, or takes too long.
    """
    child = Child(command, environment=environment, folder=folder, mask=mask)
    lines: list[bytes] = []
    deadline_s = time.monotonic() + limit_s
    try:
        while not child.ended:
            lines += child.take(0.1)
            if time.monotonic() > deadline_s:
                raise ChildFailedError(f"{child.name} has not ended within {limit_s:.0f} s")
        child.check_exit(explain(b"\n".join(lines)))
    finally:
        child.stop()
    return b"\n".join(lines)


def _guard_in(folder: Path) -> Path:
    """Return the guard as a file: this package may be in a wheel, from which no interpreter runs files."""
    path = folder / GUARD
    if not path.exists():
        source = pkgutil.get_data(__package__, GUARD)
        assert source is not None
        path.write_bytes(source)
    return path


def _size(lines: Sequence[bytes]) -> int:
    return sum(map(len, lines))


def _words_of(code: int) -> str:
    if code < 0:
        return f"was killed by signal {-code}"
    return f"ended with exit code {code}"


def _widen(pipe: int) -> None:
    """Let a pipe hold more: fewer changes between two processes. Ignore systems that do not support it."""
    import fcntl

    with contextlib.suppress(OSError):
        fcntl.fcntl(pipe, _SET_PIPE_SIZE, CHUNK_BYTES)
