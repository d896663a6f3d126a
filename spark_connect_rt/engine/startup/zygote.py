"""The zygote: a fork of the worker that imports what Spark's Python processes need, then is forked for each of them.

Owns its start, its life and what a fork has to change to be the process that was asked for. Spark starts five daemons
for a first slice, four of them to plan it; each imported pyspark for itself: 0.4 CPU s and 36 MiB (PSS). The client is
``python_from_folders.sh``, by ``zygote_client.py``; it starts a refused process as before.

A request is ``FIELDS`` of bytes, each ended by NUL: working directory, module, its argument, then NAME=VALUE of the
environment; with it come four descriptors: standard input, output and error, and one that says by its end that the
process ended. It is sent once the zygote has greeted by ``+``: a client that gave up before that gets no process. The
answer is ``+``, or why not.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import io
import logging
import os
import select
import shutil
import signal
import socket
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NoReturn, cast

from spark_connect_rt.engine.executor.closed_pipes import end_quietly
from spark_connect_rt.engine.startup.zygote_socket import ForkServerSocket, take_door

# The title that ``ps`` shows of a forked process: else it would show as the process it was forked from.
#
# The kernel shows the memory that held the arguments of the last exec; it is overwritten in place, so a title is cut to
# that length.


_ARG_START = 48  # field of /proc/PID/stat, and the next one: see proc(5)
_PR_SET_NAME = 15  # of linux/prctl.h


def set_title(title: str) -> None:
    """Show ``title``, words separated by spaces, as this process's command line, the first as its name. Linux only."""
    words = title.split(" ")
    with contextlib.suppress(OSError, ValueError, IndexError):
        name = os.path.basename(words[0]).encode()[:15]
        ctypes.CDLL(None).prctl(_PR_SET_NAME, ctypes.c_char_p(name), 0, 0, 0)
        fields = Path("/proc/self/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
        start, end = (int(fields[number - 3]) for number in (_ARG_START, _ARG_START + 1))
        if 0 < start < end:
            shown = "\0".join(words).encode()[: end - start - 1]
            ctypes.memmove(start, shown.ljust(end - start, b"\0"), end - start)


LENGTH_DIGITS = 10
DESCRIPTORS = 4
REQUEST_LIMIT_BYTES = 4 * 1024 * 1024
REQUEST_LIMIT_S = 5.0
YES = b"+"
SPARK_S_SEED = "0"
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ForkRequest:
    """The module to run, with its argument, working directory and environment."""

    directory: str
    module: str
    argument: str
    environment: Mapping[str, str]


@dataclass(frozen=True)
class ImportedSurroundings:
    """The surroundings in which the zygote imported: a process that wants others would import other things."""

    directory: str
    paths: Sequence[str]  # of PYTHONPATH
    hash_seed: str | None

    def refusal(self, request: ForkRequest) -> str:
        """Return why a request cannot be met; empty: it can."""
        if request.directory != self.directory:
            return f"it works in {request.directory}, not in {self.directory}"
        wanted = [path for path in paths_of(request.environment) if not path.endswith(".jar")]
        if wanted != list(self.paths):
            return f"its PYTHONPATH is {wanted}, not {list(self.paths)}"
        # Spark sets 0 only for all processes of an application to agree, and forks of one process do.
        if request.environment.get("PYTHONHASHSEED", SPARK_S_SEED) not in (self.hash_seed, SPARK_S_SEED):
            return "its PYTHONHASHSEED is different"
        return ""


def paths_of(environment: Mapping[str, str]) -> list[str]:
    """Return the entries of PYTHONPATH, each once."""
    return list(dict.fromkeys(filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))))


def start_zygote(
    prepare: Callable[[], None], run: Callable[[str], None], paths: Sequence[str], closed: Sequence[int] = ()
) -> bool:
    """Fork the zygote and name it in this process's environment; False: not where this process has threads, or no fork.

    It ends when this process has ended, however that comes about.

    Args:
        prepare: imports; in the zygote.
        run: runs a daemon's module, in a fork of it; returns when that is over.
        paths: PYTHONPATH of processes that may be forked from it, each once.
        closed: descriptors of this process that are closed there.
    """
    door = take_door()
    if door is None:
        return False
    if threading.active_count() > 1:
        door.close()
        return False
    home = ImportedSurroundings(os.getcwd(), list(paths), os.environ.get("PYTHONHASHSEED"))
    lifeline, held_open = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    if os.fork() == 0:
        for descriptor in (held_open, *closed):
            os.close(descriptor)
        _live(door, lifeline, prepare, run, home)
    os.close(lifeline)  # the other end is left open: the kernel closes it when this process ends
    door.listener.close()
    return True


def _live(
    door: ForkServerSocket,
    lifeline: int,
    prepare: Callable[[], None],
    run: Callable[[str], None],
    home: ImportedSurroundings,
) -> NoReturn:
    """Be the zygote; never returns into what the parent was doing."""
    code = 1
    try:
        os.setsid()  # Ctrl-C is for the worker, which ends Spark and this one in order
        set_title("connectrt-zygote")
        own_paths = paths_of(os.environ)
        prepare()
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel buries forks
        Zygote(door.listener, lifeline, run, home, own_paths).serve()
        code = 0
    except BaseException:
        log.exception("the zygote has ended: Spark's Python processes import on their own from now on")
    finally:
        shutil.rmtree(door.folder, ignore_errors=True)
        os._exit(code)


class Zygote:
    """Forks for those that ask, until the worker has ended."""

    def __init__(
        self,
        listener: socket.socket,
        lifeline: int,
        run: Callable[[str], None],
        home: ImportedSurroundings,
        own_paths: Sequence[str],
    ) -> None:
        """``lifeline`` ends with the worker; ``own_paths`` is the PYTHONPATH that this interpreter started with."""
        self._listener = listener
        self._lifeline = lifeline
        self._run = run
        self._home = home
        first = 0 if sys.flags.safe_path else 1  # the folder of what was started
        self._site_paths = [path for path in sys.path[first:] if path not in own_paths]

    def serve(self) -> None:
        """Answer requests; return when the worker has ended."""
        events = select.poll()
        events.register(self._lifeline, select.POLLIN)
        events.register(self._listener, select.POLLIN)
        while all(descriptor != self._lifeline for descriptor, _ in events.poll()):
            asking, _ = self._listener.accept()
            with asking:
                try:
                    self._answer(asking)
                except (OSError, ValueError) as error:
                    log.warning("a Python process of Spark cannot be forked: %s", error)

    def _answer(self, asking: socket.socket) -> None:
        asking.settimeout(REQUEST_LIMIT_S)
        asking.sendall(YES)
        request, descriptors = receive_request(asking)
        try:
            refusal = self._home.refusal(request)
            if not refusal and os.fork() == 0:
                self._become(request, descriptors, asking)
            asking.sendall(refusal.encode() or YES)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _become(self, request: ForkRequest, descriptors: Sequence[int], asking: socket.socket) -> NoReturn:
        """Be the process that was asked for."""
        code = 1
        try:
            asking.close()
            self._listener.close()
            os.close(self._lifeline)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _take_streams(descriptors)
            os.environ.clear()
            os.environ.update(request.environment)
            sys.path[:] = [request.directory, *paths_of(request.environment), *self._site_paths]
            sys.excepthook = sys.__excepthook__  # the command line's is another one
            sys.argv[:] = [request.module, *filter(None, [request.argument])]
            set_title(f"python -m {request.module} {request.argument}")
            self._run(request.module)
            code = 0
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 1
        except BaseException:
            log.exception("%s %s ended", request.module, request.argument)
        finally:
            with contextlib.suppress(OSError, ValueError):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)


def _take_streams(descriptors: Sequence[int]) -> None:
    """Make descriptors the standard streams, unbuffered as in the processes that Spark starts."""
    for standard, given in enumerate(descriptors[:3]):
        os.dup2(given, standard)
        os.close(given)
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, "r", closefd=False)), encoding="utf-8")
    sys.stdout = _unbuffered(1, "strict")
    sys.stderr = _unbuffered(2, "backslashreplace")


def _unbuffered(descriptor: int, errors: str) -> io.TextIOWrapper:
    return io.TextIOWrapper(
        cast(BinaryIO, io.FileIO(descriptor, "w", closefd=False)), encoding="utf-8", errors=errors, write_through=True
    )


def receive_request(asking: socket.socket) -> tuple[ForkRequest, list[int]]:
    """Return a request and its descriptors, which are the caller's to close. Raises OSError, ValueError."""
    head, descriptors, _, _ = socket.recv_fds(asking, LENGTH_DIGITS, DESCRIPTORS, socket.MSG_CMSG_CLOEXEC)
    try:
        if len(descriptors) != DESCRIPTORS:
            raise ValueError(f"received {len(descriptors)} descriptors instead of {DESCRIPTORS}")
        length = int(head)
        if not 0 <= length <= REQUEST_LIMIT_BYTES:
            raise ValueError(f"a request of {length} bytes")
        return request_of(_exactly(asking, length)), descriptors
    except BaseException:
        for descriptor in descriptors:
            os.close(descriptor)
        raise


def request_of(data: bytes) -> ForkRequest:
    """Read a request. Raises ValueError."""
    fields = [os.fsdecode(field) for field in data.split(b"\0")]
    if len(fields) < 4 or fields[-1]:
        raise ValueError("a request with too few fields, or incomplete")
    directory, module, argument, *variables = fields[:-1]
    pairs = (variable.partition("=") for variable in variables)
    return ForkRequest(directory, module, argument, {name: value for name, _, value in pairs})


def _exactly(asking: socket.socket, length: int) -> bytes:
    parts = list[bytes]()
    while length and (part := asking.recv(length)):
        parts.append(part)
        length -= len(part)
    if length:
        raise ValueError("an incomplete request")
    return b"".join(parts)


def run_daemon(module: str) -> None:
    """Run a daemon of Spark's as ``python -m`` would; returns when it has ended. Raises SystemExit."""
    daemon = importlib.import_module(module)
    if hasattr(daemon, "worker"):  # pyspark's own
        end_quietly(daemon)
    daemon.manager()
