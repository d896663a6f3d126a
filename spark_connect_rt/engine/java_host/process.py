"""One JVM that hosts Java tasks or connectors: started, spoken to, watched until it is gone.

Owns the child process, its socket and the thread that reads it. Any end of the JVM (killed, out of memory,
``System.exit`` of a plug-in) leads to one notification with the known reason.
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

from spark_connect_rt.base.loggers import ATTRIBUTE, JAVA_LOG_LEVELS, NUMBERS, java_subject
from spark_connect_rt.config.connectrt_config import (
    JAVA_HEAP,
    JAVA_OPTIONS,
    heap_bytes,
    heap_complaint,
    options_complaint,
)
from spark_connect_rt.engine.executor.hosting import HostLostError
from spark_connect_rt.engine.java_host.class_archive import HostProgram, archive_options, make_in_background
from spark_connect_rt.engine.java_host.wire import (
    Frame,
    FromJava,
    ToJava,
    WireError,
    encode_frame,
    read_frame,
    send_frame,
)
from spark_connect_rt.engine.startup.process_python import ARCHIVES_IN_PLACE
from spark_connect_rt.errors import BadConfigError

# Lines of Java's loggers in this process's log, under Java's names.
#
# The JVM has the levels, so a line that came passes here whatever Python's logger of that name would let through.


def take_line(head: Mapping[str, Any]) -> None:
    """Log a line: {"logger", "level", "message", "thread", "trace" where something was thrown}."""
    text = head["message"] + (f"\n{head['trace']}" if "trace" in head else "")
    logger = logging.getLogger(head["logger"] or "java")
    level = NUMBERS.get(head["level"], logging.INFO)
    record = logger.makeRecord(logger.name, level, "java", 0, "%s", (text,), None)
    setattr(record, ATTRIBUTE, java_subject(head["message"], head.get("thread") or ""))
    record.threadName = head.get("thread", record.threadName)
    logger.handle(record)


# Whether a JVM still lives: it says so once a second; one that is silent for long is stuck or stopped, and killed.
#
# Owns counting the seconds of silence. Seconds in which this process did not run itself (a machine that slept, a
# container that was frozen) are not counted: only looks are.


LOOK_EACH_S = 1.0
SAY_AFTER_S = 10.0
KILL_AFTER_S = 60.0

log = logging.getLogger(__name__)


class JvmLiveness:
    """The silence of one JVM. ``notice`` is for the thread that reads its socket."""

    def __init__(self, pid: int, on_silent: Callable[[str], None], kill_after_s: float = KILL_AFTER_S) -> None:
        """``on_silent``: called once, with the reason, on its own thread; it has to kill the JVM."""
        self._pid = pid
        self._on_silent = on_silent
        self._kill_after_s = kill_after_s
        self._silent_s = 0.0
        self._said = False
        self._over = threading.Event()
        threading.Thread(target=self._watch, name="java-signs-of-life", daemon=True).start()

    def notice(self) -> None:
        """Take note that the JVM has sent something."""
        self._silent_s = 0.0

    def end(self) -> None:
        """It is watched no more. Any number of times."""
        self._over.set()

    def _watch(self) -> None:
        look_s = min(LOOK_EACH_S, self._kill_after_s / 10)
        while not self._over.wait(look_s):
            self._silent_s += look_s
            if self._silent_s >= self._kill_after_s:
                self._over.set()
                self._on_silent(f"it showed no sign of life for {self._silent_s:.0f} s and was killed")
            elif self._silent_s >= min(SAY_AFTER_S, self._kill_after_s / 2) and not self._said:
                self._said = True
                log.warning(
                    "Java host pid=%d has shown no sign of life for %.0f s: it collects garbage, or is stopped. "
                    "It is killed after %.0f s",
                    self._pid,
                    self._silent_s,
                    self._kill_after_s,
                )
            elif self._said and self._silent_s <= 2 * look_s:
                self._said = False
                log.info("Java host pid=%d is alive again", self._pid)


# How a host's JVM is started: heap, direct memory, what it does when memory is gone. Pure.
#
# Java's direct memory may be as large as its heap unless the options say otherwise, so a JVM takes at most about twice
# ``connectrt.java.heap`` and 110 to 120 MB for itself.


# Java's own choice is the whole of -Xmx on most machines, whose young part is then filled before anything is collected:
# 64 instead of 129 MiB with one task that moved 1.5 M lines, 126 instead of 169 with 20, for the same CPU.
_FIRST_HEAP = "-Xms16m"
# The records of a poll or a put outlive Java's own young part of such a heap, 5 MB, and each collection copied them: up
# to a quarter of a cheap sink's CPU (0.2 to 0.8 us a record, now 0.2).
_YOUNG = ("-Xms24m", "-XX:NewSize=16m")
_YOUNG_FITS_BYTES = 128 << 20
# Records that wait to be durable outlive young collections. With Java's own 40 % free behind a full one, two Debezium
# snapshots of 50,000 rows made 14 to 19 of these, now 6, and collected for 1.0 instead of 1.4 CPU s (75 %: 0.9, and a
# heap of 200 instead of 110 MB). The young part grows with the live data, so it stays small for light tasks.
_FREE_RATIO = ("-XX:MinHeapFreeRatio=60", "-XX:MaxHeapFreeRatio=80")
# C2 waits for what stays hot: a method of each record gets there within a second of flow, what a start runs never does.
# 600,000 records in a new JVM: 3.0 instead of 4.2 CPU s of JSON with schema, 10 MiB less; the same speed afterwards.
_PATIENT_COMPILER = (
    "-XX:Tier4InvocationThreshold=30000",
    "-XX:Tier4MinInvocationThreshold=10000",
    "-XX:Tier4CompileThreshold=60000",
    "-XX:Tier4BackEdgeThreshold=200000",
)
_DIRECT = "-XX:MaxDirectMemorySize"


def jvm_options(heap: str, options: Sequence[str] = ()) -> list[str]:
    """Return the options of a host's JVM; the user's come last, so they win. Raises BadConfigError."""
    problems = {  # the name in the words, too: REST answers with these alone
        setting: [f"Invalid value for configuration {setting}: {complaint}"]
        for setting, complaint in (
            (JAVA_HEAP, heap_complaint(heap)),
            (JAVA_OPTIONS, options_complaint(options)),
        )
        if complaint
    }
    if problems:
        raise BadConfigError(problems)
    return [
        _FIRST_HEAP,
        f"-Xmx{heap.strip()}",
        f"{_DIRECT}={heap.strip()}",
        "-XX:+UseSerialGC",
        "-XX:+ExitOnOutOfMemoryError",
        *ARCHIVES_IN_PLACE,
        "-Djdk.nio.maxCachedBufferSize=262144",
        *options,
    ]


def for_records(heap: str, options: Sequence[str] = ()) -> list[str]:
    """Return options of a JVM that moves records, which precede the user's; a larger young part if it has room."""
    young = _YOUNG if (heap_bytes(heap) or 0) >= _YOUNG_FITS_BYTES else ()
    free = (
        () if any("HeapFreeRatio" in option for option in options) else _FREE_RATIO
    )  # a JVM refuses a pair that crosses
    return [*young, *free, *_PATIENT_COMPILER]


START_LIMIT_S = 60.0
_END_LIMIT_S = 5.0
_LAST_LINES = 50
_EXIT_REASONS = {
    3: "out of memory: raise connectrt.java.heap",
    9: "its Python process has ended",
    -9: "killed (SIGKILL), perhaps by the system because memory ran out",
}
MAIN_CLASS = "org.sparkconnectrt.host.Host"

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
    """A running host. Any thread may send; one separate thread hands received frames on."""

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
            worker_config: resolved; the part of the worker's settings that converters and plug-ins see.
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
        self._signs = JvmLiveness(self.pid, self._on_silent, silence_limit_s)
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
