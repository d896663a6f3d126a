"""Runs slices as Spark jobs of one partition each, and knows when one is certainly dead.

Owns the job's thread, its ticket, its connections. A slice is gone when its job ended AND every half that ever
connected is dead: only then may its tasks run elsewhere (E3).
"""

from __future__ import annotations

import contextlib
import logging
import secrets
import shutil
import tempfile
import threading
from base64 import b64encode
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark_connect_rt.base.concurrency import MACHINE_THREADS
from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.base.supervision import Report, SupervisedPart, report_nowhere
from spark_connect_rt.engine.driver.control_channel import ControlChannel, SlotConnection, listen_tcp, listen_unix
from spark_connect_rt.engine.driver.slot_jobs import (
    OnSliceEvent,
    ReportedTotals,
    SliceConnected,
    SliceGone,
    SliceHandle,
    SliceMessage,
)
from spark_connect_rt.engine.driver.slot_session import make_active, slice_session
from spark_connect_rt.engine.driver.spark_session import BackgroundSession
from spark_connect_rt.engine.executor.control_wire import Message
from spark_connect_rt.engine.executor.datasource import FORMAT, TICKET_OPTION
from spark_connect_rt.engine.executor.late_plugins import ROLE as PLUGINS
from spark_connect_rt.engine.executor.shipped_plugins import JAVA_HOST
from spark_connect_rt.engine.executor.task_logs import OP as LINES
from spark_connect_rt.engine.executor.ticket import SliceTicket
from spark_connect_rt.engine.log_lines import decoded_line
from spark_connect_rt.engine.startup.session_conf import is_local
from spark_connect_rt.engine.task_logs import TASK_LOGS, TaskLogs
from spark_connect_rt.errors import ConnectError

# Lets only a few jobs be planned at once, first come first served.
#
# Owns nothing but the queue. Spark starts one Python process per planning step and thread, so a hundred jobs planned
# together would want gigabytes; a plain semaphore is not fair.


class Turn:
    """A place at the gate; given back once."""

    def __init__(self, gate: FairGate) -> None:
        self._gate = gate
        self._lock = threading.Lock()
        self._held = True

    def give_back(self) -> None:
        """Let the next one in."""
        with self._lock:
            held, self._held = self._held, False
        if held:
            self._gate.leave()

    def __enter__(self) -> Turn:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.give_back()


class FairGate:
    """Lets a few in at a time, first come first served (a plain semaphore is not fair)."""

    def __init__(self, width: int) -> None:
        self._free = width
        self._queue: list[threading.Event] = []
        self._lock = threading.Lock()

    def turn(self) -> Turn:
        """Wait, in the order of the calls, until a place is free; return the turn that holds it."""
        with self._lock:
            if self._free > 0 and not self._queue:
                self._free -= 1
                return Turn(self)
            called = threading.Event()
            self._queue.append(called)
        called.wait()
        return Turn(self)

    def leave(self) -> None:
        """Give the place to the caller that waits longest, or free it."""
        with self._lock:
            if self._queue:
                self._queue.pop(0).set()
            else:
                self._free += 1


# Answers to executors on other machines that ask for plug-ins that came after their session began.
#
# Archives that Spark sends reach an executor at its start or with its next task; a slot's processes live long. So they
# ask here, over the control channel, for the folders, their files, and the files' bytes part by part. The jars that
# host Java plug-ins are asked for in the same way: a session that began without such plug-ins sent none. Reads files,
# no more.


PART_BYTES = 512 * 1024


class PluginDownloads:
    """The folders of plug-ins as they are now. One thread."""

    def __init__(self, folders: Sequence[str], java_jars: Callable[[], Sequence[Path]] = tuple) -> None:
        """Take the folders that executors are sent, and what finds the jars that host the Java plug-ins there.

        No folders: executors have them at the same paths.
        """
        self._folders = [Path(folder) for folder in folders]
        self._java_jars = java_jars
        self._host_jars: dict[str, Path] = {}  # as they were when an executor asked which there are

    def answer(self, message: Message) -> Message:
        """Answer one question; the answer about a missing or unreadable file is a refusal with the reason."""
        try:
            return self._answer(message)
        except (ConnectError, OSError, ValueError, KeyError, IndexError, TypeError) as error:
            return {"op": "refused", "why": f"{type(error).__name__}: {error}"}

    def _answer(self, message: Message) -> Message:
        if message["op"] == "plugins":
            return {"op": "plugins", "folders": [_children(folder) for folder in self._folders]}
        if message["op"] == "files" and message["folder"] == JAVA_HOST:
            self._host_jars = {jar.name: jar for jar in self._java_jars()}
            return {"op": "files", "files": list(self._host_jars)}
        if message["op"] == "files":
            plugin = self._below(message["folder"], message["plugin"])
            if plugin.is_file():
                return {"op": "files", "files": [""]}
            files = (file for file in plugin.rglob("*") if file.is_file() and "__pycache__" not in file.parts)
            return {"op": "files", "files": sorted(file.relative_to(plugin).as_posix() for file in files)}
        if message["op"] == "part":
            with self._file(message).open("rb") as opened:
                opened.seek(message["offset"])
                data = opened.read(PART_BYTES)
            return {"op": "part", "data": b64encode(data).decode(), "last": len(data) < PART_BYTES}
        raise ValueError(f"no answer to {message['op']}")

    def _file(self, message: Message) -> Path:
        if message["folder"] == JAVA_HOST:
            return self._host_jars[message["file"]]
        return self._below(message["folder"], message["plugin"], message["file"])

    def _below(self, number: int, *names: str) -> Path:
        folder = self._folders[number].resolve()
        found = folder.joinpath(*filter(None, names))
        if ".." in found.parts or folder not in found.parents:
            raise ValueError("a path out of the folder of plug-ins")
        return found


def _children(folder: Path) -> list[str]:
    if not folder.is_dir():
        return []
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith((".", "__")))


# Log lines that executors sent, into the memory of this process. A message that cannot be read loses only its own
# lines.


log = logging.getLogger(__name__)


def take_lines(message: Message, logs: TaskLogs) -> None:
    """Keep the lines of a message for each of its tasks. Raises nothing; quick: the control channel waits for it."""
    try:
        tasks = [ConnectorTaskId(str(connector), int(number)) for connector, number in message["tasks"]]
        lines = [decoded_line(line) for line in message["lines"]]
        logs.add(tasks, "process" if message.get("shared") else "executor", str(message["machine"])[:255], lines)
    except (LookupError, TypeError, ValueError) as error:
        log.warning("log lines of an executor cannot be read: %s", error)


PLANNING_THREADS = 3  # more would start a Python process per planning step and thread
ERROR_LIMIT = 2_000
LOSS_GRACE_S = 1.5  # for Spark to say itself why a process of a cluster is gone; then the job is cancelled


class SparkSliceLauncher:
    """Port SlotLauncher on Spark: each slice is a job of one shared SparkSession."""

    def __init__(
        self,
        session: BackgroundSession,
        clients: str,
        session_timeout_ms: int,
        report: Report = report_nowhere,
        shipped: Sequence[str] = (),
        java_jars: Callable[[], Sequence[Path]] = tuple,
    ) -> None:
        """``shipped``: plug-in folders that executors elsewhere get; ``java_jars``: finds the jars of a Java host."""
        self.session = session
        self.plugins = PluginDownloads(shipped, java_jars)
        self.session_timeout_ms = session_timeout_ms
        self.clients = clients
        self.planning = FairGate(PLANNING_THREADS)
        self.folder = Path(tempfile.mkdtemp(prefix="connectrt-"))  # 0700: tickets and the socket
        self.cancelling = ThreadPoolExecutor(1, thread_name_prefix="slice-cancel")
        self._holds_lease: Callable[[], bool] = lambda: True
        self._report = report
        self.loss_grace_s = LOSS_GRACE_S  # none on a local master, which has no executors to lose
        self._channel: ControlChannel | None = None
        self._beside: SparkSession | None = None
        self._channel_lock = threading.Lock()

    def open(self, on_event: OnSliceEvent) -> None:
        """Take the listener of all slices' events; before the first ``launch``."""
        self.on_event = on_event

    def live_while(self, holds_lease: Callable[[], bool]) -> None:
        """Ask this before executors are kept alive by a ping."""
        self._holds_lease = holds_lease

    def launch(self, slice_id: int) -> SliceHandle:
        """Start a slice on its own thread; it waits there for Spark and for its turn to be planned."""
        spark_slice = SparkSlotJob(self, slice_id)
        try:
            threading.Thread(target=spark_slice.run_job, name=f"slice-{slice_id}", daemon=True).start()
        except RuntimeError as error:  # no thread is left: a slice that could not be opened, as for want of a file
            spark_slice.never_began(str(error))
        return spark_slice

    def channel(self) -> ControlChannel:
        """Return the control channel; its making needs the session, for the address depends on the master."""
        if self._channel is not None and not self._channel.ended:
            return self._channel  # without a call into the JVM, which may be dead: slices are still to be cut
        spark = self.session.get()
        with self._channel_lock:
            if self._channel is None or self._channel.ended:
                self._beside = slice_session(spark)
                context = spark.sparkContext
                self._channel = self._listen(context.master, str(context.getConf().get("spark.driver.host")))
                self._channel.on_thread_end = lambda why: self._report(SupervisedPart.CHANNEL, why)
            return self._channel

    def slices_session(self) -> SparkSession:
        """Return the session of slices and make it the calling thread's; there is one once there is a channel."""
        assert self._beside is not None
        make_active(self._beside)
        return self._beside

    def _listen(self, master: str, driver_host: str) -> ControlChannel:
        if is_local(master):
            self.loss_grace_s = 0.0
            return listen_unix(str(self.folder / "control.sock"), self.session_timeout_ms, lambda: self._holds_lease())
        return listen_tcp(driver_host, self.session_timeout_ms, lambda: self._holds_lease())

    def close(self) -> None:
        """Close the channel and remove the tickets; the session belongs to the caller."""
        if self._channel is not None:
            self._channel.close()
        self.cancelling.shutdown(wait=False)
        shutil.rmtree(self.folder, ignore_errors=True)


class SparkSlotJob:
    """One slice: SliceHandle for the engine, ChannelOwner for the channel."""

    def __init__(self, launcher: SparkSliceLauncher, slice_id: int) -> None:
        self.slice_id = slice_id
        self.token = secrets.token_hex(16)
        self._launcher = launcher
        self._group = f"connectrt-slice-{slice_id}-{self.token[:6]}"
        self._lock = threading.RLock()
        self._halves: dict[str, SlotConnection] = {}  # reader and writer, while they live
        self._totals = ReportedTotals()
        self._books_closed = False
        self._committer: tuple[SlotConnection, Message] | None = None
        self._ending = self._aborted = self._job_done = self._gone = self._cancelled = False
        self._error: str | None = None
        self._twice = ""  # says that Spark made another attempt of it
        self._planned: Callable[[], None] = lambda: None

    # -- SliceHandle

    def send(self, message: Message) -> None:
        """Send a command to the reader half; dropped while there is none."""
        with self._lock:
            self._ending = self._ending or message["op"] == "end"
            reader = self._halves.get("reader")
        if reader is not None:
            self._launcher.channel().send(reader, message)

    def abort(self) -> None:
        """Cut both halves (they exit by themselves at once) and cancel the job."""
        self._abort(0.0)

    def _abort(self, grace_s: float) -> None:
        """Cut both halves. Cancel the job if it has not ended by itself within ``grace_s``."""
        with self._lock:
            if self._aborted or self._gone:
                return
            self._aborted = True
            halves = list(self._halves.values())
        for half in halves:
            self._launcher.channel().cut(half)
        if self._launcher.session.ready():
            if grace_s:
                MACHINE_THREADS.later(int(grace_s * 1000), self._cancel_soon)
            else:
                self._cancel_soon()
        else:
            self._on_job_done("killed before Spark was ready")

    def _cancel_soon(self) -> None:
        with self._lock:
            if self._job_done:
                return
            self._cancelled = True
        with contextlib.suppress(RuntimeError):  # the launcher is closed
            self._launcher.cancelling.submit(self._cancel)

    def _cancel(self) -> None:
        with contextlib.suppress(Exception):  # nothing to cancel is as good
            self._launcher.session.get().sparkContext.cancelJobGroup(self._group)

    # -- the job's thread

    def never_began(self, error: str) -> None:
        """Say that the slice is over, as it has no thread to begin on."""
        self._on_job_done(error)

    def run_job(self) -> None:
        """Plan and run the job; returns when the slice is over."""
        ticket_path = self._launcher.folder / f"slice-{self.slice_id}.json"
        error: str | None = None
        try:
            self._launcher.session.get()
            if self._aborted:
                return  # reported already, by abort
            channel = self._launcher.channel()
            channel.expect(self.slice_id, self)
            address, timeout_ms = channel.address, self._launcher.session_timeout_ms
            clients, certificate = self._launcher.clients, channel.certificate
            ticket = SliceTicket(self.slice_id, self.token, address, timeout_ms, clients, certificate)
            with self._launcher.planning.turn() as turn:
                self._planned = turn.give_back
                if not self._aborted:
                    ticket.save(ticket_path)
                    self._run_job(str(ticket_path))
        except (PySparkException, Py4JError, OSError) as failure:
            error = str(failure)[:ERROR_LIMIT] or type(failure).__name__
        except Exception as failure:
            log.exception("slice=%d failed", self.slice_id)
            error = f"{type(failure).__name__}: {failure}"[:ERROR_LIMIT]
        finally:
            ticket_path.unlink(missing_ok=True)
            self._on_job_done(error)

    def _run_job(self, ticket_path: str) -> None:
        spark = self._launcher.slices_session()
        spark.sparkContext.setJobGroup(self._group, f"connectrt slice {self.slice_id}")
        frame = spark.read.format(FORMAT).option(TICKET_OPTION, ticket_path).load()
        frame.write.format(FORMAT).option(TICKET_OPTION, ticket_path).mode("append").save()

    def _on_job_done(self, error: str | None) -> None:
        with self._lock:
            if self._job_done:
                return
            self._job_done = True
            if self._error and error and not self._cancelled:  # Spark's reason, behind what the channel noticed
                self._error = f"{self._error}: {error}"
            elif not self._ending or error is not None:
                self._error = self._error or (error and self._twice) or error or "the job ended unexpectedly"
            halves = list(self._halves.values())
        if self._launcher.session.ready():
            with contextlib.suppress(Exception):
                channel = self._launcher.channel()
                channel.forget(self.slice_id)
                for half in halves:
                    channel.cut(half)
        self._check_gone()

    # -- ChannelOwner, on the channel's thread

    def on_hello(self, connection: SlotConnection, message: Message) -> bool:
        """Take in a half; a second one of its role is refused: the first may still write what the other would repeat.

        The committer's books are compared once the last reports are in.
        """
        if connection.role == PLUGINS:
            return True
        with self._lock:
            if connection.role in self._halves:  # another attempt that Spark makes of the slice (E3)
                self._twice = self._twice or f"Spark started a second {connection.role}: is spark.speculation on?"
                return False
            if connection.role == "commit" and self._committer is not None:
                return False
            if connection.role == "commit":
                self._committer = (connection, message)
            else:
                self._halves[connection.role] = connection
            complete = len(self._halves) == 2
            aborted = self._aborted
        if connection.role == "commit":
            self._close_books()
        elif aborted:
            self._launcher.channel().cut(connection)
        elif complete:
            self._planned()
            self._launcher.on_event(SliceConnected(self.slice_id))
        return True

    def on_message(self, connection: SlotConnection, message: Message) -> None:
        """Count a report's totals and pass it on as a SliceMessage; one who asks for plug-ins is answered."""
        if connection.role == PLUGINS:
            self._launcher.channel().send(connection, self._launcher.plugins.answer(message))
            return
        if message["op"] == LINES:
            take_lines(message, TASK_LOGS)
            return
        self._totals.count(message)
        self._launcher.on_event(SliceMessage(self.slice_id, message))

    def on_dead(self, connection: SlotConnection) -> None:
        """A half ended or died; unasked, the other half must go too."""
        if connection.role == PLUGINS:
            return
        with self._lock:
            if self._halves.get(connection.role) is connection:
                del self._halves[connection.role]
                if not self._ending and self._error is None:
                    self._error = f"the {connection.role} process died"
            unasked = not self._ending and connection.role in ("reader", "writer")
        if unasked:
            self._abort(self._launcher.loss_grace_s)
        self._close_books()
        self._check_gone()

    def _close_books(self) -> None:
        """Answer the committer (E4): only when both connections ended is everything in that they said."""
        with self._lock:
            if self._committer is None or self._halves or self._books_closed:
                return
            self._books_closed = True
            connection, message = self._committer
        written = {host: (records, batches) for host, records, batches in message["totals"]}
        differences = "; ".join(self._totals.differences(written))
        if differences:
            log.error("slice=%d counts do not match: %s", self.slice_id, differences)
        self._launcher.channel().send(connection, {"op": "totals", "error": differences})

    def _check_gone(self) -> None:
        with self._lock:
            if self._gone or not self._job_done or self._halves:
                return
            self._gone = True
        self._launcher.on_event(SliceGone(self.slice_id, self._error))
