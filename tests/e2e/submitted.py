"""Workers under plain spark-submit: nothing of this repository is on their path but the wheel they are given."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil

from tests.e2e.commands import ROOT


def plain_environment() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "SPARK_HOME")}


def submitted(
    job: str, files: list[Path], wheel: Path, where: list[str], environment: dict[str, str], log: Path
) -> subprocess.Popen[bytes]:
    """Start ``spark-submit ... jobs/JOB FILE ...`` beside its log; nothing of this repository is on its path."""
    spark_submit = str(Path(sys.executable).with_name("spark-submit"))
    command = [spark_submit, *where, "--py-files", str(wheel), str(ROOT / "jobs" / job), *map(str, files)]
    with log.open("wb") as out:
        return subprocess.Popen(
            command,
            cwd=log.parent,
            env=plain_environment() | environment,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )


@contextlib.contextmanager
def killed_at_the_end(submitted: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    """Leave neither the process nor anything that it started."""
    try:
        yield submitted
    finally:
        kill_all(session_of(submitted.pid))
        submitted.wait()


def session_of(pid: int) -> list[psutil.Process]:
    """Return the live processes of the session that process began, itself and orphans included."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(OSError):
            if os.getsid(process.pid) == pid:
                found.append(process)
    return found


def kill_all(processes: list[psutil.Process]) -> None:
    """Send SIGKILL to those that live."""
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.kill()


def descendants(root: psutil.Process) -> list[tuple[psutil.Process, str]]:
    """Return the live processes below ``root`` with their command lines; zombies have none."""
    found = []
    for process in root.children(recursive=True):
        with contextlib.suppress(psutil.Error):
            found.append((process, " ".join(process.cmdline())))
    return found


def executors_of(pid: int) -> list[psutil.Process]:
    return [process for process, words in descendants(psutil.Process(pid)) if "CoarseGrainedExecutorBackend" in words]


def named(processes: list[psutil.Process]) -> list[str]:
    found = []
    for process in processes:
        with contextlib.suppress(psutil.Error):
            found.append(" ".join(process.cmdline())[-200:])
    return found
