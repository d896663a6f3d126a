"""Runs the README's commands as a user does: through spark-submit.sh, in their own processes."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import httpx

ROOT = Path(__file__).parents[2]


def spark_submit(*arguments: str) -> list[str]:
    return [str(ROOT / "spark-submit.sh"), *arguments]


def run(command: list[str], limit_s: float = 240.0, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=limit_s,
        check=False,
        cwd=ROOT,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
    )


def launch(command: list[str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("ab") as out:
        return subprocess.Popen(
            command, stdout=out, stderr=out, cwd=ROOT, start_new_session=True, stdin=subprocess.DEVNULL
        )


def until(
    condition: Callable[[], bool],
    limit_s: float,
    what: str,
    last: Callable[[], object] = lambda: "",
    every_s: float = 0.05,
) -> None:
    """Await a fact; say what was last seen when it does not come."""
    deadline = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {limit_s} s: {what}; last seen: {last()}")
        time.sleep(every_s)


def get_json(url: str) -> object:
    try:
        answer = httpx.get(url, timeout=5.0, trust_env=False)
    except httpx.HTTPError:
        return None
    return answer.json() if answer.status_code == 200 else None


def worker_file(folder: Path, settings: Mapping[str, str]) -> Path:
    file = folder / "worker.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    return file
