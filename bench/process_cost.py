"""What a worker's processes cost: CPU seconds and memory of the whole tree, JVM and Python apart."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

import psutil

MIB = 2**20
LOOK_EVERY_S = 0.5
SETTLE_S = 65.0  # until what a start needed is gone: Spark ends its idle Python processes after a minute


class CpuMeter:
    """CPU seconds of a changing set of processes: ``with CpuMeter(worker.processes) as meter: ...; meter.used_s``.

    Looks twice a second, because the times of a process that ends are lost unless its parent waits for it
    (Python workers of Spark come and go). What a process used after its last look is missed.
    """

    def __init__(self, processes: Callable[[], Sequence[psutil.Process]]) -> None:
        self._processes = processes
        self._first: dict[tuple[int, float], float] = {}
        self._last: dict[tuple[int, float], float] = {}
        self._kinds: dict[tuple[int, float], str] = {}
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="cpu-meter", daemon=True)

    @property
    def used_s(self) -> float:
        """Return the CPU seconds used between entering and leaving."""
        return sum(self.used_s_by_kind.values())

    @property
    def used_s_by_kind(self) -> dict[str, float]:
        """Return the same by process: the first one is ``own``, the others ``jvm`` or ``python``."""
        found: dict[str, float] = {}
        for key, last in self._last.items():
            found[self._kinds[key]] = found.get(self._kinds[key], 0.0) + last - self._first[key]
        return found

    def __enter__(self) -> Self:
        self._look(born_before=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        self._look()

    def _run(self) -> None:
        while not self._done.wait(LOOK_EVERY_S):
            self._look()

    def _look(self, born_before: bool = False) -> None:
        for number, process in enumerate(self._processes()):
            with contextlib.suppress(psutil.NoSuchProcess):
                key = (process.pid, process.create_time())
                if key not in self._kinds:
                    self._kinds[key] = _kind(process) if number else "own"
                times = process.cpu_times()
                self._last[key] = times.user + times.system
                self._first.setdefault(key, self._last[key] if born_before else 0.0)


def memory_mib(processes: Sequence[psutil.Process]) -> dict[str, float]:
    """Return RSS and PSS in MiB of JVMs, of Pythons and of all; RSS counts shared pages once per process."""
    figures = dict.fromkeys(("jvm_rss", "jvm_pss", "python_rss", "python_pss"), 0.0)
    pythons = 0
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            kind = _kind(process)
            info = process.memory_full_info()
            figures[f"{kind}_rss"] += info.rss / MIB
            figures[f"{kind}_pss"] += getattr(info, "pss", info.rss) / MIB
            pythons += kind == "python"
    figures["rss"] = figures["jvm_rss"] + figures["python_rss"]
    figures["pss"] = figures["jvm_pss"] + figures["python_pss"]
    return {**{key: round(value, 1) for key, value in figures.items()}, "pythons": pythons}


def _kind(process: psutil.Process) -> str:
    return "jvm" if Path(process.exe()).name.startswith("java") else "python"
