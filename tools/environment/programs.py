"""Runs programs one after the other: bars go to the terminal, all output to a log, phases are named with seconds."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tools.environment.installers import shown_lines

QUIET_S = 15.0  # without a line for so long, one says that it still works
KEPT_BYTES = 65_536  # of a program's output, for the log and for the cause of a failure
_READ_BYTES = 65_536
_MARK_BYTES = 64  # a mark may come in two pieces
_LIST_BEGINS = re.compile(rb"(?:\x1b\[[0-9;]*m)*(?:Installed|Uninstalled) (?:\x1b\[[0-9;]*m)*\d+ package")


class FailedError(Exception):
    """A program failed; ``text`` is what it printed."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


class Progress:
    """Lines of ``[ 12 s] what happens``, in seconds since the command began, on standard error."""

    def __init__(self, began_s: float) -> None:
        """Take the time when the user pressed Enter, s since 1970."""
        self._began_s = began_s
        self._phases: list[tuple[str, float]] = []

    def phase(self, name: str, what: str) -> None:
        """Begin a phase: ``name`` is for the summary, ``what`` the line to show."""
        self._phases.append((name, time.time()))
        self.say(what)

    def say(self, text: str) -> None:
        """Print one line with the seconds in front."""
        sys.stderr.write(f"[{int(time.time() - self._began_s):3d} s] {text}\n")
        sys.stderr.flush()

    def summary(self) -> str:
        """Return the seconds of each phase so far: ``uv 9 s, packages 12 s``."""
        ends = [began for _, began in self._phases[1:]] + [time.time()]
        return ", ".join(f"{name} {end - began:.0f} s" for (name, began), end in zip(self._phases, ends, strict=True))


def run(command: Sequence[str], log: Path, progress: Progress, environment: Mapping[str, str] | None = None) -> None:
    """Run a program to its end. Raises FailedError when it cannot be started or its exit code is not 0."""
    variables = {**os.environ, **(environment or {})}
    on_terminal = sys.stderr.isatty()
    ours, theirs = _terminal() if on_terminal else os.pipe()
    try:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, env=variables)
    except OSError as error:
        os.close(ours)
        raise FailedError(f"{command[0]}: {error}") from error
    finally:
        os.close(theirs)
    try:
        text = _follow(ours, progress, on_terminal)
        code = process.wait()
    except BaseException:
        process.terminate()
        process.wait()
        raise
    finally:
        os.close(ours)
    with contextlib.suppress(OSError), log.open("a", encoding="utf-8") as file:
        file.write(f"$ {' '.join(command)}\n{text}\n")
    if code:
        raise FailedError(text or f"{command[0]} ended with exit code {code}")


def _terminal() -> tuple[int, int]:
    """Return both ends of a terminal of the size of ours, so that bars are drawn as wide."""
    ours, theirs = pty.openpty()
    with contextlib.suppress(OSError):
        size = fcntl.ioctl(sys.stderr.fileno(), termios.TIOCGWINSZ, b"\0" * 8)
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, size)
    return ours, theirs


def _follow(source: int, progress: Progress, on_terminal: bool) -> str:
    """Return the end of a program's output; show its bars, or lines where there is no terminal."""
    shown, rest, last = Bars(), "", bytearray()
    while True:
        if not select.select([source], [], [], QUIET_S)[0]:
            progress.say("  still working")
            continue
        try:
            data = os.read(source, _READ_BYTES)
        except OSError:  # Linux: the other end of a terminal was closed
            data = b""
        if not data:
            if on_terminal:
                sys.stderr.write("\x1b[0m")  # colours end where the list of packages was cut off
            return without_bars(last.decode(errors="replace"))
        last += data
        del last[:-KEPT_BYTES]
        if on_terminal:
            sys.stderr.buffer.write(shown.visible(data))
            sys.stderr.flush()
        else:
            *lines, rest = (rest + data.decode(errors="replace")).split("\n")
            for line in shown_lines("\n".join(lines)):
                progress.say(f"  {line}")


class Bars:
    """What is shown of an installer's bytes: all before the list of the packages that it has installed."""

    def __init__(self) -> None:
        self._line = b""
        self._is_over = False

    def visible(self, data: bytes) -> bytes:
        """Return what to show of the next bytes. Looks at each byte a fixed number of times: bars are megabytes."""
        if self._is_over:
            return b""
        known = len(self._line)
        searched = self._line + data
        found = _LIST_BEGINS.search(searched)
        if found is None:
            self._line = searched[-_MARK_BYTES:]
            return data
        self._is_over = True
        return data[: max(0, found.start() - known)]


def without_bars(text: str) -> str:
    """Return a program's text as it is read later: no colours, no bars that were drawn over."""
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).replace("\r\n", "\n")
    return "\n".join(line.rpartition("\r")[2] for line in plain.split("\n"))
