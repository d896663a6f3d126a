"""Environments of Python for programs: made once for a requirement, kept between runs and shared by all tasks.

``python -m`` this module with a requirement makes its environment beforehand and prints its path. Owns one folder for
each (interpreter, requirement) below the cache folder. It is made under a lock between processes and marked when it is
complete. One whose build failed or was killed is made again.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import logging
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from spark_connect_rt.errors import ExternalError

_WHOLE = "connectrt-requirement.txt"  # written last
_BUILD_LIMIT_S = 1_800
_NOT_INHERITED = re.compile(r"(?:PYTHON|SPARK|PYSPARK|CONNECTRT)|VIRTUAL_ENV$|CONDA_PREFIX$")
log = logging.getLogger(__name__)


class EnvironmentFailedError(ExternalError):
    """No environment for a requirement, or no such program in it."""

    code = "CRT-1170"


def program_path(executable: str, requirement: Sequence[str], python: str | None, default: str = "") -> Path:
    """Return the whole path of a program; with a requirement its environment is made first.

    Args:
        executable: a path; a name in the environment, or without a requirement on the PATH; empty: ``default``.
        requirement: the packages that pip installs, a word each; empty: no environment.
        python: the interpreter of the environment; None: this process's.

    Raises EnvironmentFailedError.
    """
    name = executable or default
    if name.startswith("-"):
        raise EnvironmentFailedError(f"a program's name must not begin with -: {name!r}")
    if os.sep in name:
        path = Path(name)
        if not os.access(path, os.X_OK):
            raise EnvironmentFailedError(f"there is no program at {name} on this machine")
        return path.absolute()
    if not requirement:
        found = shutil.which(name)
        if found is None:
            raise EnvironmentFailedError(
                f"program {name!r} is not on the PATH of this machine, and no requirement is set"
            )
        return Path(found)
    folder = environment(requirement, python)
    path = folder / "bin" / name
    if not path.exists():
        before = ("activate", "deactivate", "python", "pip", "pydoc")
        there = sorted(file.name for file in path.parent.iterdir() if not file.name.lower().startswith(before))
        raise EnvironmentFailedError(
            f"the environment of {' '.join(requirement)} has no program {name!r}. It has {', '.join(there)}"
        )
    return path


def environment(requirement: Sequence[str], python: str | None = None) -> Path:
    """Return the folder of the environment that has ``requirement``, made now if it is the first time: minutes.

    Raises EnvironmentFailedError with the installer's last lines.
    """
    if options := [word for word in requirement if word.startswith("-")]:
        raise EnvironmentFailedError(f"a requirement must not be an option of pip: {' '.join(options)}")
    interpreter = python or sys.executable
    name = hashlib.sha256("\n".join([interpreter, *sorted(requirement)]).encode()).hexdigest()[:16]
    root = _root()
    folder = root / name
    if (folder / _WHOLE).exists():
        return folder
    with _exclusive(root / f"{name}.lock"):
        if not (folder / _WHOLE).exists():
            _make(folder, interpreter, requirement)
    return folder


def _root() -> Path:
    xdg = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    root = Path(os.environ.get("CONNECTRT_CACHE") or Path(xdg) / "connectrt") / "programs"
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EnvironmentFailedError(
            f"no folder for environments can be created. Set CONNECTRT_CACHE: {error}"
        ) from error
    return root


@contextlib.contextmanager
def _exclusive(lock: Path) -> Iterator[None]:
    with lock.open("a") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _make(folder: Path, interpreter: str, requirement: Sequence[str]) -> None:
    """Build in place, for an environment cannot be moved; the mark that it is whole comes last."""
    shutil.rmtree(folder, ignore_errors=True)
    log.info("creating the environment of %s, which may take minutes", " ".join(requirement))
    uv = shutil.which("uv")
    inside = str(folder / "bin" / "python")
    if uv:
        steps = [
            [uv, "venv", "--quiet", "--python", interpreter, str(folder)],
            [uv, "pip", "install", "--quiet", "--python", inside],
        ]
    else:
        steps = [[interpreter, "-m", "venv", str(folder)], [inside, "-m", "pip", "install", "--quiet", "--no-input"]]
    steps[1] += ["--", *requirement]
    try:
        for step in steps:
            _run(step)
        (folder / _WHOLE).write_text("\n".join(requirement) + "\n", encoding="utf-8")
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _run(command: Sequence[str]) -> None:
    what = f"{Path(command[0]).name} {' '.join(command[1:4])}"
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_BUILD_LIMIT_S, check=False, env=inherited()
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EnvironmentFailedError(f"{what}: {error}") from error
    if done.returncode:
        last = "\n".join(done.stderr.decode(errors="replace").splitlines()[-15:])
        raise EnvironmentFailedError(f"{what} ended with exit code {done.returncode}:\n{last}")


def inherited(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return this process's environment variables without those for its Python and Spark, and ``more``."""
    kept = {name: value for name, value in os.environ.items() if not _NOT_INHERITED.match(name)}
    return {**kept, **(more or {})}


if __name__ == "__main__":
    sys.stdout.write(f"{environment(sys.argv[1:])}\n")
