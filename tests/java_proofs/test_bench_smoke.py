"""``./bench.sh java iceberg --short``: each benchmark of connectors in Java ends next to Java Connect and is exact."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bench.__main__ import HOSTED

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 900


@pytest.mark.timeout(LIMIT_S + 30)
def test_every_short_run_ends_with_its_line(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench", "java", "iceberg", "--short", "--results", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    for name in (benchmark.replace(".", "_") for benchmark in (*HOSTED, "iceberg")):
        assert re.search(rf"^{name} ratio=\d+\.\d+ .* met=(?:yes|no)$", done.stdout, re.MULTILINE), done.stdout[-3000:]
        runs = json.loads((tmp_path / f"{name}.json").read_text())["runs"]
        assert {"ours", "java"} <= {run["who"] for run in runs}
        assert all(run["figures"].get("exact", True) for run in runs)
