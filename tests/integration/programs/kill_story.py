"""One story for every real program: killed twice in mid-flow, in two ways, and counted."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

import psutil

from tests.integration.programs.program_runs import LIMIT_S
from tests.integration.programs.real_programs import RealProgram
from tests.integration.programs.task_process import TaskProcess


def left(folder: Path) -> list[psutil.Process]:
    """Return the programs that still run with files of a killed task, a moment later."""
    deadline_s = time.monotonic() + 5
    while found := [
        process for process in psutil.process_iter(["environ"]) if str(folder) in str(process.info["environ"])
    ]:
        if time.monotonic() > deadline_s:
            return found
        time.sleep(0.1)
    return []


def killed_twice_and_counted(
    folder: Path, program: RealProgram, topic: str, numbers: Iterable[int], records: int
) -> tuple[int, int]:
    """Kill the task's process after so many records, then the program once records flow again; then let it end.

    Returns how many records came and how many of them came again. Raises AssertionError: one is missing, or a program
    outlived its task's process.
    """
    process = TaskProcess(folder, program.kind, "", program.config, program.settings)
    process.kill_at(records)
    assert not left(folder), "a program outlived its task's process"
    running = process.start()
    before = process.counted().total()
    deadline_s = time.monotonic() + LIMIT_S
    while process.counted().total() == before:  # a fast program is ahead of what is produced
        assert running.poll() is None, "it ended too soon"
        assert time.monotonic() < deadline_s
        time.sleep(0.02)
    (guard,) = psutil.Process(running.pid).children()
    (child,) = guard.children()
    child.kill()
    assert running.wait(3 * LIMIT_S) == 0
    count = process.counted()
    wanted = {(topic, str(number)) for number in numbers}
    assert wanted == count.keys(), f"{len(wanted - count.keys())} are missing, {len(count.keys() - wanted)} too many"
    return len(count), count.total() - len(count)
