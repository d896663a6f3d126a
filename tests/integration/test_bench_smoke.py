"""Every benchmark runs to its end, beside Java, and says so in the form that scripts read."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bench.__main__ import NAMES

ROOT = Path(__file__).resolve().parents[2]
NUMBER = r"(?:\d+\.\d+|n/a)"


@pytest.mark.parametrize("name", NAMES)
def test_a_short_run_ends_with_its_line_and_writes_its_file(name: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench", name, "--short", "--results", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    line = done.stdout.splitlines()[-1]
    assert re.fullmatch(rf"{name} ratio={NUMBER} limit={NUMBER} target=\S+ met=(yes|no)", line)
    written = json.loads((tmp_path / f"{name}.json").read_text())
    assert written["last_line"] == line
    sides = {run["who"] for run in written["runs"]}
    assert {"ours", "java", "limit"} <= sides, written["notes"]
    assert written["machine"]["cores"] >= 1
    assert all(run["figures"].get("exact", True) for run in written["runs"])
