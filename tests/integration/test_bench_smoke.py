"""Benchmarks run to their end next to Java and print the line that scripts read.

A whole run tries one benchmark, ``./test.sh long`` tries all of them (``CONNECTRT_BENCHES=all``).
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bench.__main__ import NAMES

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 560
pytestmark = pytest.mark.timeout(LIMIT_S + 40)  # the first test waits for all benchmarks
TRIED = NAMES if os.environ.get("CONNECTRT_BENCHES") == "all" else ("source",)
WITHOUT_JAVA = ("sql", "console")  # Java has nothing to run beside them
NUMBER = r"(?:\d+\.\d+|n/a)"


@pytest.fixture(scope="module")
def smoke(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """Run the short form of each tried benchmark in one laboratory; return its output and the folder of results."""
    results = tmp_path_factory.mktemp("results")
    done = subprocess.run(
        [sys.executable, "-m", "bench", *TRIED, "--short", "--results", str(results)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout, results


@pytest.mark.parametrize("name", TRIED)
def test_a_short_run_ends_with_its_line_and_writes_its_file(name: str, smoke: tuple[str, Path]) -> None:
    printed, results = smoke
    (line,) = re.findall(rf"^{name} ratio={NUMBER} limit={NUMBER} target=\S+ met=(?:yes|no)$", printed, re.MULTILINE)
    written = json.loads((results / f"{name}.json").read_text())
    assert written["last_line"] == line
    sides = {run["who"] for run in written["runs"]}
    wanted = {"ours", "limit"} if name in WITHOUT_JAVA else {"ours", "java", "limit"}
    assert wanted <= sides, written["notes"]
    assert written["machine"]["cores"] >= 1
    assert all(run["figures"].get("exact", True) for run in written["runs"])
