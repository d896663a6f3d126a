"""The memory of a task that writes to hundreds of partitions. `tests/lakehouse_proofs` writes 10,000."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

PARTITIONS, MOST_GROWTH_MIB = 300, 64


def test_files_of_many_partitions_are_written_one_after_another(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.support.many_partitions", str(tmp_path), str(PARTITIONS), "1", "false"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["rows"] == found["files"] == PARTITIONS
    assert found["peak"] - found["before"] <= MOST_GROWTH_MIB, found
