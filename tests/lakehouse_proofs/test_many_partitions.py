"""A task that writes 10,000 partitions of an Iceberg table in each commit stays below 512 MiB of memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

PARTITIONS, COMMITS, MOST_MIB = 10_000, 2, 512
pytestmark = pytest.mark.timeout(1800)


@pytest.mark.parametrize("upsert", [False, True])
def test_ten_thousand_partitions_fit_into_memory(tmp_path: Path, upsert: bool) -> None:
    command = [sys.executable, "-m", "tests.support.many_partitions", str(tmp_path), str(PARTITIONS), str(COMMITS)]
    done = subprocess.run([*command, str(upsert).lower()], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["rows"] == (PARTITIONS if upsert else PARTITIONS * COMMITS)
    assert found["files"] >= PARTITIONS
    assert found["peak"] <= MOST_MIB, found
