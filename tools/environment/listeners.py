"""Whether the ports of a job's REST listeners are free, seen before minutes are spent on an environment.

Reads only what the job's file and its ``--set`` say literally. The job itself looks again, and decides.
"""

from __future__ import annotations

import errno
import re
import socket
from collections.abc import Iterable, Sequence
from pathlib import Path

from tools.environment.causes import Failure

EXIT_LISTENER_TAKEN = 16
_DEFAULT = "http://:8083"
_STANDALONE, _SET = "--standalone", "--set"
_LISTENER = re.compile(r"https?://(\[[^\]]*\]|[^:/]*):(\d+)", re.IGNORECASE)
_SETTING = re.compile(r"\s*listeners\s*[=:]\s*(.*?)\s*$")


def job_file(job: Sequence[str], folder: Path) -> Path | None:
    """Return the properties file of a job's arguments. None: there is none, or the job is not a worker."""
    words = [word for word in job[:2] if word != _STANDALONE]
    return folder / words[0] if words and not words[0].startswith("-") else None


def listeners_of(job: Sequence[str], folder: Path) -> list[str]:
    """Return the listeners that a worker with these arguments will open; none where its file cannot be read."""
    file = job_file(job, folder)
    try:
        lines = file.read_text(encoding="utf-8").splitlines() if file else None
    except (OSError, ValueError):
        return []  # the job itself meets the same, and says so
    if lines is None:
        return []
    given = [*lines, *_overrides(job)]
    found = [match[1] for line in given if (match := _SETTING.match(line))]
    return [text.strip() for text in (found[-1] if found else _DEFAULT).split(",")]


def _overrides(job: Sequence[str]) -> Iterable[str]:
    """Yield ``name=value`` of each ``--set name=value`` and ``--set=name=value``."""
    for word, following in zip(job, [*job[1:], ""], strict=True):
        if word == _SET:
            yield following
        elif word.startswith(f"{_SET}="):
            yield word.removeprefix(f"{_SET}=")


def taken_port(listeners: Iterable[str]) -> Failure | None:
    """Return the failure of the first listener whose port another process has. None: all are free."""
    for text in listeners:
        match = _LISTENER.fullmatch(text)
        if match is None or match[2] == "0":
            continue
        host, port = match[1].strip("[]"), int(match[2])
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except (OSError, OverflowError) as error:
                if getattr(error, "errno", None) == errno.EADDRINUSE:
                    free = re.sub(r":\d+$", ":0", text)
                    return Failure(
                        f"cannot listen on {text} (setting 'listeners'): another process uses the port. Stop it, or "
                        f"let the system choose a free port with --set listeners={free}",
                        EXIT_LISTENER_TAKEN,
                    )
    return None
