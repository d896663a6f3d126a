"""spark-submit.sh before there is an environment: which Python it takes, and what it says when one cannot be made.

The real installation is what every run of the tests begins with (``--environment dev``).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.commands import ROOT

TOOLS = ("bash", "env", "dirname", "cat", "cksum", "sed", "nice", "sleep", "rm", "mv")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with the script and what makes the environment, and nothing else of the repository."""
    folder = tmp_path / "checkout"
    for name in ("tools/environment", "spark_connect_rt/base"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in (
        "spark-submit.sh",
        "pyproject.toml",
        "requirements.lock",
        "requirements-dev.lock",
        "tools/__init__.py",
    ):
        shutil.copy(ROOT / name, folder / name)
    return folder


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A PATH that has the shell's tools and no Python."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for tool in TOOLS:
        (folder / tool).symlink_to(shutil.which(tool) or f"/usr/bin/{tool}")
    return folder


def program(folder: Path, name: str, script: str) -> Path:
    file = folder / name
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    return file


def environment(checkout: Path, path: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    given = {"PATH": str(path), "HOME": str(checkout.parent / "home"), **variables}
    command = [str(checkout / "spark-submit.sh"), "--environment"]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False, env=given, stdin=subprocess.DEVNULL
    )


def test_without_a_python_it_says_which_one_is_needed_and_how_to_get_it(checkout: Path, path: Path) -> None:
    done = environment(checkout, path)
    assert done.returncode == 10
    assert "needs Python 3.11 or later, and found none" in done.stderr
    assert "apt install python3 python3-venv" in done.stderr


def test_older_pythons_are_named_and_passed_over(checkout: Path, path: Path) -> None:
    program(path, "python3", "echo 3.9")
    program(path, "python", "echo 2.7")
    done = environment(checkout, path)
    assert done.returncode == 10
    assert "found only older ones (python3 is 3.9, python is 2.7)" in done.stderr


@pytest.mark.parametrize(
    ("script", "words"), [("echo 3.10", "is Python 3.10"), ("exit 3", "is not a Python that runs")]
)
def test_a_python_that_the_user_names_is_refused_not_replaced(
    checkout: Path, path: Path, script: str, words: str
) -> None:
    program(path, "python3", f'exec {sys.executable} "$@"')
    named = program(path, "mine", script)
    done = environment(checkout, path, PYTHON=str(named))
    assert done.returncode == 10
    assert f"PYTHON={named} {words}" in done.stderr
    assert not (checkout / ".venv").exists()


def test_without_network_it_says_so_and_the_next_try_continues(checkout: Path, path: Path) -> None:
    program(path, "python3", f'exec {sys.executable} "$@"')
    nowhere = {"HTTPS_PROXY": "http://127.0.0.1:9", "HTTP_PROXY": "http://127.0.0.1:9", "PIP_RETRIES": "0"}
    done = environment(checkout, path, **nowhere)
    assert done.returncode == 29, done.stderr
    assert "The package index cannot be reached" in done.stderr
    assert "it continues" in done.stderr
    assert "Traceback" not in done.stderr
    python = checkout / ".venv" / "bin" / "python"
    made_ns = os.lstat(python).st_mtime_ns
    again = environment(checkout, path, **nowhere)
    assert again.returncode == 29
    assert os.lstat(python).st_mtime_ns == made_ns, "the half environment is used, not made a second time"


def test_a_uv_that_does_not_work_is_replaced_by_the_one_that_pip_brings(checkout: Path, path: Path) -> None:
    program(path, "python3", f'exec {sys.executable} "$@"')
    program(path, "uv", "echo some odd failure >&2; exit 1")
    done = environment(checkout, path, HTTPS_PROXY="http://127.0.0.1:9", HTTP_PROXY="http://127.0.0.1:9")
    assert done.returncode == 29, done.stderr
    assert "The package index cannot be reached" in done.stderr, "pip was asked"


@pytest.mark.parametrize(
    ("printed", "words"),
    [
        ("failed to write: No space left on device (os error 28)", "The disk is full"),
        ("failed to create directory: Read-only file system (os error 30)", "read-only file system"),
    ],
)
def test_failed_write_of_uv_is_explained_in_a_sentence(checkout: Path, path: Path, printed: str, words: str) -> None:
    program(path, "python3", f'exec {sys.executable} "$@"')
    program(path, "uv", f"echo '{printed}' >&2; exit 1")
    done = environment(checkout, path)
    assert done.returncode == 29, done.stderr
    assert words in done.stderr
    assert "CONNECTRT_VENV" in done.stderr or "continues" in done.stderr


def test_a_folder_that_cannot_be_written_names_another_way(checkout: Path, path: Path) -> None:
    program(path, "python3", f'exec {sys.executable} "$@"')
    done = environment(checkout, path, CONNECTRT_VENV="/proc/connectrt-venv")
    assert done.returncode == 29, done.stderr
    assert "CONNECTRT_VENV" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_environment_that_is_ready_is_used_as_it_is(checkout: Path, path: Path) -> None:
    venv = checkout / ".venv"
    (venv / "share" / "connectrt").mkdir(parents=True)
    (venv / "share" / "connectrt" / "spark-4.3.0-x.jsa").touch()
    stamp = subprocess.run(
        "cat requirements.lock pyproject.toml | cksum", shell=True, cwd=checkout, capture_output=True, text=True
    )
    (venv / ".connectrt-stamp").write_text(stamp.stdout)
    done = environment(checkout, path)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{venv}/bin/python\n", "")


@pytest.mark.parametrize(("script", "last"), [("exit 0", "class archive ready"), ("exit 1", "no class archive")])
def test_the_archive_that_follows_a_ready_environment_is_announced(
    checkout: Path, path: Path, script: str, last: str
) -> None:
    (checkout / ".venv" / "bin").mkdir(parents=True)
    program(checkout / ".venv" / "bin", "python", script)
    stamp = subprocess.run(
        "cat requirements.lock pyproject.toml | cksum", shell=True, cwd=checkout, capture_output=True, text=True
    )
    (checkout / ".venv" / ".connectrt-stamp").write_text(stamp.stdout)
    done = environment(checkout, path)
    assert (done.returncode, done.stdout) == (0, f"{checkout}/.venv/bin/python\n")
    announced, ended = done.stderr.splitlines()
    assert "making an archive of classes for faster starts: Spark runs once" in announced
    assert last in ended
