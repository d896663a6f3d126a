"""Brings plug-ins to an executor on another machine that were installed after its session began, and hosts of Java's.

Owns: asking the driver over the control channel, and the copies below Spark's own folder of files. One process of a
machine fetches at a time; a plug-in appears whole or not at all, the jars that host Java plug-ins all or none.
"""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import tempfile
from base64 import b64decode
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from spark_connect_rt.engine.executor.control_client import Line
from spark_connect_rt.engine.executor.control_wire import Message, MessageSplitter, encode_message
from spark_connect_rt.engine.executor.shipped_plugins import JAVA_HOST, shipped_name
from spark_connect_rt.engine.executor.ticket import SliceTicket

ROLE = "plugins"
_ANSWER_LIMIT_S = 30.0
_ticket: SliceTicket | None = None  # of the slice that this process serves, if its driver is on another machine

log = logging.getLogger(__name__)


def ask_this_driver(ticket: SliceTicket) -> None:
    """Remember the driver to ask; on its own machine its folders are read where they are."""
    global _ticket
    _ticket = ticket if ticket.address.startswith("tcp:") else None


def fetch_late_plugins(root: Path) -> bool:
    """Copy what the driver has and this machine has not, below ``root``; return whether something was.

    Never raises: the code that needs a missing plug-in names it.
    """
    return _asked(root, _fetch)


def fetch_java_host(root: Path) -> bool:
    """Copy the jars that host Java plug-ins below ``root``, unless they are there; return whether that was done.

    Never raises: without them an executor looks for its own.
    """
    return _asked(root, _fetch_java_host)


def _asked(root: Path, fetch: Callable[[_Asking, Path], bool]) -> bool:
    ticket = _ticket
    if ticket is None:
        return False
    try:
        with _alone(root), _Asking(ticket) as asking:
            return fetch(asking, root)
    except (OSError, ValueError, KeyError) as error:
        log.warning("the driver cannot be asked for plug-ins: %s", error)
        return False


@contextmanager
def _alone(root: Path) -> Iterator[None]:
    with (root / ".connectrt-late-plugins.lock").open("a") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


class _Asking:
    """Questions and answers, in turn."""

    def __init__(self, ticket: SliceTicket) -> None:
        self._line = Line(ticket)
        self._line.sock.settimeout(_ANSWER_LIMIT_S)
        self._splitter = MessageSplitter()
        self._pending: list[Message] = []
        hello = {"op": "hello", "slice": ticket.slice_id, "token": ticket.token, "role": ROLE, "pid": os.getpid()}
        self._line.send(encode_message(hello))

    def __enter__(self) -> _Asking:
        return self

    def __exit__(self, *_: object) -> None:
        self._line.sock.close()

    def ask(self, op: str, **fields: Any) -> Message:
        """Return the answer. Raises OSError, ValueError."""
        self._line.send(encode_message({"op": op, **fields}))
        while True:
            while self._pending:
                message = self._pending.pop(0)
                if message["op"] == op:
                    return message
                if message["op"] == "refused":
                    raise ValueError(message["why"])
            data = self._line.receive()
            if data is None:
                raise ConnectionError("the driver closed the connection")
            self._pending += self._splitter.feed(data)


def _fetch(asking: _Asking, root: Path) -> bool:
    fetched = False
    for number, names in enumerate(asking.ask("plugins")["folders"]):
        folder = root / shipped_name(number)
        for name in names:
            if "/" in name or name.startswith(".") or (folder / name).exists():
                continue
            folder.mkdir(exist_ok=True)
            _fetch_one(asking, number, name, folder, asking.ask("files", folder=number, plugin=name)["files"])
            log.info("plug-in %s was downloaded from the driver", name)
            fetched = True
    return fetched


def _fetch_one(asking: _Asking, number: int | str, name: str, folder: Path, files: Sequence[str]) -> None:
    draft = Path(tempfile.mkdtemp(prefix=".late-", dir=folder))
    try:
        for file in files:
            path = PurePosixPath(name, file)
            if path.is_absolute() or ".." in path.parts:
                raise ValueError(f"the driver names an invalid file: {file!r}")
            target = draft.joinpath(*path.parts)
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("wb") as out:
                last = False
                while not last:
                    part = asking.ask("part", folder=number, plugin=name, file=file, offset=out.tell())
                    out.write(b64decode(part["data"]))
                    last = part["last"]
        (draft / name).rename(folder / name)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _fetch_java_host(asking: _Asking, root: Path) -> bool:
    if (root / JAVA_HOST).is_dir() or not (files := asking.ask("files", folder=JAVA_HOST, plugin=JAVA_HOST)["files"]):
        return False
    _fetch_one(asking, JAVA_HOST, JAVA_HOST, root, files)
    log.info("the jars that host Java plug-ins were downloaded from the driver")
    return True
