"""google-java-format over the Java sources: which files it would write otherwise.

``python -m tests.support.java_format`` writes them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from spark_connect_rt.base.cache import resolve_jars
from spark_connect_rt.engine.startup.java_home import find_java

FORMATTER = "com.google.googlejavaformat:google-java-format:1.28.0"  # the newest that Java 17 runs
ROOT = Path(__file__).resolve().parents[2]
_OPENED = ("api", "code", "file", "parser", "tree", "util")  # of the compiler, whose parser it uses


def sources(root: Path = ROOT) -> list[Path]:
    """Return the Java files of a checkout: the host's, and those of test plug-ins."""
    return sorted(path for folder in ("java", "tests") for path in (root / folder).rglob("*.java"))


def run(files: list[Path], *options: str) -> subprocess.CompletedProcess[str]:
    """Run the formatter; it prints the names of files that it would change with ``--dry-run``."""
    opened = (f"--add-exports=jdk.compiler/com.sun.tools.javac.{package}=ALL-UNNAMED" for package in _OPENED)
    jars = os.pathsep.join(map(str, resolve_jars((FORMATTER,))))
    java = str(find_java().executable)
    command = [java, "-XX:TieredStopAtLevel=1", *opened, "-cp", jars, "com.google.googlejavaformat.java.Main"]
    return subprocess.run([*command, *options, *map(str, files)], capture_output=True, text=True, check=False)


if __name__ == "__main__":
    sys.exit(run(sources(), "--replace").returncode)
