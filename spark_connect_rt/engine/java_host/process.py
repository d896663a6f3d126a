"""One JVM that hosts Java tasks or connectors: started, spoken to, watched until it is gone.

Owns the child process, its socket and the thread that reads it. Whatever ends the JVM (killed, out of memory,
``System.exit`` of a plug-in) ends with one notification, which carries what is known of the reason.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from spark_connect_rt.base.java_log_levels import JAVA_LOG_LEVELS
from spark_connect_rt.engine.executor.hosting import HostLostError
from spark_connect_rt.engine.java_host.class_archive import HostProgram, archive_options, make_in_background
from spark_connect_rt.engine.java_host.java_log import take_line
from spark_connect_rt.engine.java_host.jvm_settings import jvm_options
from spark_connect_rt.engine.java_host.signs_of_life import KILL_AFTER_S, SignsOfLife
from spark_connect_rt.engine.java_host.wire import (
    Frame,
    FromJava,
    ToJava,
    WireError,
    encode_frame,
    read_frame,
    send_frame,
)

START_LIMIT_S = 60.0
_END_LIMIT_S = 5.0
_LAST_LINES = 50
_EXIT_REASONS = {
    3: "out of memory: raise connectrt.java.heap",
    9: "its Python process has ended",
    -9: "killed (SIGKILL), perhaps by the system because memory ran out",
}
MAIN_CLASS = "org.sparkconnectrt.host.Host"

log = logging.getLogger(__name__)

OnFrame = Callable[[Frame], None]
OnGone = Callable[[str], None]


class JavaHostGoneError(HostLostError):
    """The JVM has ended; the message says why, as far as is known."""


def command_line(program: HostProgram, socket_path: Path, heap: str, options: Sequence[str] = ()) -> list[str]:
    """Return the command of a host. ``heap``: as of -Xmx, e.g. ``256m``. Maps the archive of its classes, if any.

    Raises BadConfigError.
    """
    return _command(program, archive_options(program), socket_path, heap, options)


def _command(
    program: HostProgram, archive: Sequence[str], socket_path: Path, heap: str, options: Sequence[str]
) -> list[str]:
    return [
        str(program.java),
        *archive,
        *jvm_options(heap, options),
        "-cp",
        os.pathsep.join(map(str, program.jars)),
        MAIN_CLASS,
        str(socket_path),
    ]


def _from_file(command: Sequence[str], folder: Path) -> list[str]:
    """Return a command whose words the JVM reads from a file: in lists of processes it is not taken for a host."""
    words = folder / "rehearsal"
    quoted = ('"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"' for word in command[1:])
    words.write_text("\n".join(quoted), encoding="utf-8")
    return [command[0], f"@{words}"]


def prepare_archive(program: HostProgram) -> None:
    """Have later hosts of this program start faster: returns at once, and leaves other work the processor."""
    patient = [nice, "-n", "19"] if (nice := shutil.which("nice")) else []
    make_in_background(program, rehearsal(program, patient))


def rehearsal(program: HostProgram, before: Sequence[str] = ()) -> Callable[..., JavaProcess]:
    """Return what starts the host that ``make_archive`` lets run; ``before``: words before its command."""

    def start(options: Sequence[str], worker_config: Mapping[str, str], on_frame: OnFrame) -> JavaProcess:
        return JavaProcess(
            lambda path: [*before, *_from_file(_command(program, [], path, "128m", options), path.parent)],
            worker_config,
            on_frame,
            lambda why: None,
            {"root": "WARN"},
        )

    return start


class JavaProcess:
    """A running host. Any thread may send; what comes is handed on by one thread of its own."""

    def __init__(
        self,
        command: Callable[[Path], Sequence[str]],
        worker_config: Mapping[str, str],
        on_frame: OnFrame,
        on_gone: OnGone,
        levels: Mapping[str, str] | None = None,
        silence_limit_s: float = KILL_AFTER_S,
    ) -> None:
        """Start a JVM and wait until it answers.

        Args:
            command: from the path of its socket to the command line.
            worker_config: resolved; what converters and plug-ins see of the worker.
            on_frame: takes every frame that is about a task or a connector; must not wait.
            on_gone: called once, with the reason, unless ``close`` was called.
            levels: of Java's loggers.
            silence_limit_s: a JVM that says nothing for so long is killed.

        Raises JavaHostGoneError: it does not start; the message holds what it printed.
        """
        self._on_frame = on_frame
        self._on_gone = on_gone
        self._lines: deque[str] = deque(maxlen=_LAST_LINES)
        self._last_words = ""
        self._killed = ""
        self._closing = False
        self._lock, self._levels_lock = threading.Lock(), threading.Lock()
        with tempfile.TemporaryDirectory(prefix="connectrt-java-") as folder:
            path = Path(folder) / "socket"
            with socket.socket(socket.AF_UNIX) as listening:
                listening.bind(str(path))
                listening.listen(1)
                self._child = subprocess.Popen(
                    list(command(path)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
                )
                threading.Thread(target=self._read_output, name="java-output", daemon=True).start()
                until_s = time.monotonic() + START_LIMIT_S
                self._connection = self._accepted(listening, until_s)
        try:
            set_before = JAVA_LOG_LEVELS.current()
            self._greet({"worker": dict(worker_config), "loggers": {**(levels or {}), **set_before}}, until_s)
        except BaseException:
            self._connection.close()
            self._child.kill()
            raise
        JAVA_LOG_LEVELS.listen(self._set_levels)
        if JAVA_LOG_LEVELS.current() != set_before:  # set while the JVM started
            self._set_levels()
        self._signs = SignsOfLife(self.pid, self._on_silent, silence_limit_s)
        self._thread = threading.Thread(target=self._read_frames, name="java-frames", daemon=True)
        self._thread.start()

    @property
    def pid(self) -> int:
        """Return the JVM's process id."""
        return self._child.pid

    def send(self, kind: ToJava, host: int, head: Any = None, data: Sequence[Any] = ()) -> None:
        """Send a frame. Raises JavaHostGoneError, ValueError (too large)."""
        start = encode_frame(kind, host, head, sum(len(memoryview(part).cast("B")) for part in data))
        try:
            with self._lock:
                send_frame(self._connection, [start, *data])
        except OSError as error:
            raise JavaHostGoneError(f"the Java host is gone: {self._reason()}") from error

    def _set_levels(self, _: Mapping[str, str] | None = None) -> None:
        """Send the levels as they are now: of two threads that do, the later one sends the newer."""
        with self._levels_lock, contextlib.suppress(JavaHostGoneError):
            self.send(ToJava.LEVELS, 0, JAVA_LOG_LEVELS.current())

    def _on_silent(self, reason: str) -> None:
        log.error("Java host pid=%d: %s", self.pid, reason)
        self._killed = reason
        self._child.kill()

    def close(self, limit_s: float = _END_LIMIT_S) -> None:
        """End the JVM, whatever its tasks do; after ``limit_s`` by force."""
        self._closing = True
        self._signs.end()
        JAVA_LOG_LEVELS.forget(self._set_levels)
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()
        try:
            self._child.wait(limit_s)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()

    def _accepted(self, listening: socket.socket, until_s: float) -> socket.socket:
        listening.settimeout(0.25)
        while time.monotonic() < until_s:
            with contextlib.suppress(TimeoutError):
                connection, _ = listening.accept()
                return connection
            if self._child.poll() is not None:
                break
        self._child.kill()
        self._child.wait()
        raise JavaHostGoneError(f"the Java host cannot be started: {self._reason()}")

    def _greet(self, hello: Mapping[str, Any], until_s: float) -> None:
        """Say hello and wait until the JVM is ready, until ``until_s`` at most. Raises JavaHostGoneError."""
        self._connection.settimeout(max(0.01, until_s - time.monotonic()))
        self.send(ToJava.HELLO, 0, hello)
        while True:
            self._connection.settimeout(max(0.01, until_s - time.monotonic()))
            try:
                frame = read_frame(self._connection)
            except TimeoutError as error:
                self._killed = f"it connected but was not ready within {START_LIMIT_S:g} s"
                self._child.kill()
                raise JavaHostGoneError(f"the Java host cannot be started: {self._reason()}") from error
            except (OSError, WireError) as error:
                raise JavaHostGoneError(f"the Java host broke its protocol: {error}") from error
            if frame is None:
                raise JavaHostGoneError(f"the Java host ended during its start: {self._reason()}")
            if frame.kind is FromJava.READY:
                log.info("Java host pid=%d java=%s is ready", self.pid, frame.head["java"])
                self._connection.settimeout(None)
                return
            self._own(frame)

    def _read_frames(self) -> None:
        try:
            while (frame := read_frame(self._connection)) is not None:
                self._signs.notice()
                if not self._own(frame):
                    self._on_frame(frame)
        except (OSError, WireError) as error:
            if not self._closing:
                log.error("the Java host's socket: %s", error)
        except Exception:
            log.exception("the reader of the Java host's frames ended")
        if not self._closing:
            reason = self._reason()
            self.close()
            self._on_gone(reason)

    def _own(self, frame: Frame) -> bool:
        """Take what concerns the JVM itself; False: it is for a task or a connector."""
        if frame.kind is FromJava.LINE:
            take_line(frame.head)
        elif frame.kind is FromJava.HEARTBEAT and frame.host == 0:
            log.debug("Java host pid=%d: %s", self.pid, frame.head["jvm"])
        elif frame.kind is FromJava.LAST_WORDS:
            stack = "\n    ".join(frame.head["stack"])
            self._last_words = f"thread {frame.head['thread']} called System.exit:\n    {stack}"
        else:
            return False
        return True

    def _read_output(self) -> None:
        assert self._child.stdout is not None
        for line in self._child.stdout:
            text = line.decode(errors="replace").rstrip()
            self._lines.append(text)
            log.info("Java host pid=%d: %s", self._child.pid, text)

    def _reason(self) -> str:
        """Return why it ended, as far as is known."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(_END_LIMIT_S)
        code = self._child.poll()
        why = self._killed or self._last_words or _EXIT_REASONS.get(code or 0, "")
        lines = "\n".join(self._lines)
        return f"exit code {code}" + (f", {why}" if why else "") + (f"; it printed last:\n{lines}" if lines else "")
