"""Installs a wheel or a requirement into a folder of its own, without what the worker has already.

Two steps: ask pip (or uv) what is missing beside the worker's own packages, then install exactly that. So a plug-in
that depends on this package, Spark or Arrow does not bring them a second time. Only wheels: nothing is built, so no
code runs.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from spark_connect_rt.operations.plugin_install.downloads import NotFetchedError

TIMEOUT_S = 900
_UV_LINE = re.compile(r"^\s*\+\s+(\S+?)(==\S+| @ \S+)", re.MULTILINE)  # a file's version is in its name


def install_packages(wanted: str, name: str, folder: Path) -> list[str]:
    """Install a wheel (its path) or requirement and what it needs.

    Returns ``name==version`` of each, its own first (``name @ URL``: what uv says of a file). Raises NotFetchedError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    missing = _missing_by_uv(wanted) if _uses_uv() else _missing_by_pip(wanted)
    own = [requirement for requirement in missing if _plain(re.split("==| @ ", requirement)[0]) == _plain(name)]
    if not own:
        raise NotFetchedError(f"{wanted} is already installed in the worker's environment. Nothing to install")
    others = sorted(requirement for requirement in missing if requirement not in own)
    chosen = wanted if wanted.endswith(".whl") else own[0]  # not another version, published in between
    _run([*_installer(), "--target", str(folder), "--no-deps", chosen, *others])
    return [*own, *others]


def _uses_uv() -> bool:
    return find_spec("pip") is None


def _installer() -> list[str]:
    if not _uses_uv():
        return [sys.executable, "-m", "pip", "install", "--quiet", "--no-input", "--only-binary=:all:"]
    uv = shutil.which("uv")
    if uv is None:
        raise NotFetchedError(
            "Python plug-ins cannot be installed: neither pip nor uv is available. Install one of them"
        )
    return [uv, "pip", "install", "--quiet", "--python", sys.executable, "--only-binary", ":all:"]


def _missing_by_pip(wanted: str) -> list[str]:
    report = json.loads(_run([*_installer(), "--dry-run", "--report", "-", wanted]))
    found = [package["metadata"] for package in report["install"]]
    return [f"{metadata['name']}=={metadata['version']}" for metadata in found]


def _missing_by_uv(wanted: str) -> list[str]:
    command = [word for word in _installer() if word != "--quiet"]
    return missing_of_uv(_run([*command, "--dry-run", wanted]))


def missing_of_uv(printed: str) -> list[str]:
    """Return what ``uv pip install --dry-run`` would install: ``name==version``, or ``name @ URL`` of a file. Pure."""
    return [name + rest for name, rest in _UV_LINE.findall(printed)]


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _run(command: Sequence[str]) -> str:
    try:
        done = subprocess.run(
            list(command), capture_output=True, text=True, timeout=TIMEOUT_S, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotFetchedError(f"{command[0]} failed: {error}") from error
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        raise NotFetchedError("the package cannot be installed: " + " | ".join(lines[-6:]))
    return done.stdout if "--report" in command else done.stdout + done.stderr
