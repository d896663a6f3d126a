"""What a worker's processes cost: CPU seconds and memory of the whole tree, JVM and Python apart."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

import psutil

MIB = 2**20


def cpu_seconds(processes: Sequence[psutil.Process]) -> float:
    """Return user + system CPU of the processes and of their children that ended already."""
    total = 0.0
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total += times.user + times.system
            total += getattr(times, "children_user", 0.0) + getattr(times, "children_system", 0.0)
    return total


def memory_mib(processes: Sequence[psutil.Process]) -> dict[str, float]:
    """Return RSS and PSS in MiB of JVMs, of Pythons and of all; RSS counts shared pages once per process."""
    figures = dict.fromkeys(("jvm_rss", "jvm_pss", "python_rss", "python_pss"), 0.0)
    pythons = 0
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            kind = "jvm" if Path(process.exe()).name.startswith("java") else "python"
            info = process.memory_full_info()
            figures[f"{kind}_rss"] += info.rss / MIB
            figures[f"{kind}_pss"] += getattr(info, "pss", info.rss) / MIB
            pythons += kind == "python"
    figures["rss"] = figures["jvm_rss"] + figures["python_rss"]
    figures["pss"] = figures["jvm_pss"] + figures["python_pss"]
    return {**{key: round(value, 1) for key, value in figures.items()}, "pythons": pythons}
