"""Where the zygote listens: named in the environment before a JVM is started that hands it on to those that ask."""

from __future__ import annotations

import os
import shutil
import socket
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

SOCKET = "CONNECTRT_ZYGOTE"  # variable of the environment: where it listens
WAITING = 64


@dataclass(frozen=True, eq=False)
class ForkServerSocket:
    """A socket that is listened on, and its folder."""

    listener: socket.socket
    folder: Path

    def close(self) -> None:
        """Stop listening: later callers import for themselves."""
        os.environ.pop(SOCKET, None)
        self.listener.close()
        shutil.rmtree(self.folder, ignore_errors=True)


_OPENED: list[ForkServerSocket] = []  # one at most


def open_door() -> bool:
    """Listen, and name the place in this process's environment; False: another zygote is named there, or no Linux."""
    if not sys.platform.startswith("linux") or SOCKET in os.environ:
        return False
    folder = Path(tempfile.mkdtemp(prefix="connectrt-"))  # 0700: keeps others out
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(folder / "zygote"))
    listener.listen(WAITING)
    os.environ[SOCKET] = str(folder / "zygote")
    _OPENED.append(ForkServerSocket(listener, folder))
    return True


def take_door() -> ForkServerSocket | None:
    """Return the door that was opened, or open one, for the zygote; None: not here."""
    return _OPENED.pop() if _OPENED or open_door() else None


def close_door() -> None:
    """Close a door that no zygote took."""
    while _OPENED:
        _OPENED.pop().close()
