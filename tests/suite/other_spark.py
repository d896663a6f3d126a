"""``python -m tests.suite.other_spark 4.0 TESTS``: pytest in an environment that has another Spark, made when missing.

Owns those environments: each beside the one it is made from, whose files it shares but for Spark.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Mapping
from pathlib import Path

from spark_connect_rt.base.cache import exclusive

LINES = ("4.0", "4.1", "4.2")
STAMP = ".connectrt-stamp"  # as spark-submit.sh writes it: which lock file an environment was made from


def installer(python: Path) -> list[str]:
    """Return the command that installs what is named behind it into the environment of an interpreter."""
    uv = shutil.which("uv")
    if uv is not None:
        return [uv, "pip", "install", "--quiet", "--python", str(python)]
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python)]
    return [*pip, "install", "--quiet"]


def environment(line: str) -> Path:
    """Return the interpreter of an environment with the newest Spark of a line, made at the first call: a minute.

    Raises CalledProcessError: no such Spark could be installed.
    """
    origin = Path(sys.prefix)
    folder = origin.with_name(f"{origin.name}-spark-{line}")
    python = folder / "bin" / "python"
    wanted = origin / STAMP
    with exclusive(folder.with_suffix(f"{folder.suffix}.lock")):
        made = folder / STAMP
        if made.is_file() and made.read_bytes() == wanted.read_bytes():
            return python
        print(f"making the environment in {folder.name} (once, about a minute)", file=sys.stderr, flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        venv.create(folder, symlinks=True)
        _share_packages(folder)
        subprocess.run([*installer(python), f"pyspark=={line}.*"], check=True)
        shutil.copyfile(wanted, made)
    return python


def _share_packages(folder: Path) -> None:
    """Link all packages but Spark: the same versions as in the lock file, in seconds and without room on the disk."""
    (site,) = folder.glob("lib/python*/site-packages")
    skipped = shutil.ignore_patterns("pyspark", "pyspark-*", "__pycache__")
    shutil.copytree(
        sysconfig.get_path("purelib"), site, ignore=skipped, copy_function=_link, symlinks=True, dirs_exist_ok=True
    )


def _link(origin: str, copy: str) -> None:
    try:
        os.link(origin, copy)
    except OSError:  # another file system
        shutil.copy2(origin, copy)


def variables(python: Path) -> Mapping[str, str]:
    """Return what processes of that environment find in theirs: its programs first, in spark-submit.sh too."""
    path = os.pathsep.join([str(python.parent), os.environ.get("PATH", os.defpath)])
    return {"PATH": path, "CONNECTRT_VENV": str(python.parent.parent)}


def main(line: str, *arguments: str) -> None:
    """Become pytest there."""
    python = environment(line)
    os.environ.update(variables(python))
    os.execv(python, [str(python), "-m", "pytest", *arguments])


if __name__ == "__main__":
    main(*sys.argv[1:])
