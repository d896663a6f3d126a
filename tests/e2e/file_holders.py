"""Which Python processes of this machine hold which files open: who runs a FileStreamSource's task, by the kernel."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Sequence
from pathlib import Path

EVERY_S = 0.3


def files_of(pid: int) -> set[str]:
    """Return what a process holds open; nothing when it is gone."""
    found = set()
    with contextlib.suppress(OSError):
        for entry in os.scandir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                found.add(os.readlink(entry.path))
    return found


def python_processes() -> list[int]:
    """Return every Python process but this one."""
    found = []
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            if name.isdigit() and int(name) != os.getpid() and Path(f"/proc/{name}/comm").read_text()[:6] == "python":
                found.append(int(name))
    return found


class FileHolders:
    """Looks at the holders of files all the time; keeps each sight of a file that two processes held at once."""

    def __init__(self, files: Sequence[Path]) -> None:
        self.files = [str(path) for path in files]
        self.twice: list[str] = []
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="file-holders", daemon=True)
        self._thread.start()

    def look(self) -> list[list[int]]:
        """Return the processes that hold each file, in the order they were looked at."""
        open_files = [(pid, files_of(pid)) for pid in python_processes()]
        return [[pid for pid, files in open_files if path in files] for path in self.files]

    def holder(self, number: int) -> int | None:
        """Return the process that holds a file, None when there is none."""
        pids = self.look()[number]
        return pids[0] if pids else None

    def _run(self) -> None:
        while not self._stopped.wait(EVERY_S):
            for path, pids in zip(self.files, self.look(), strict=True):
                # Seen one after another: only those that hold it still when looked at again held it together.
                still = [pid for pid in pids if len(pids) > 1 and path in files_of(pid)]
                if len(still) > 1:
                    self.twice.append(f"{path}: {still}")

    def close(self) -> None:
        """Look no more."""
        self._stopped.set()
        self._thread.join(10)
