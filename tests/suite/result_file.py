"""Where the tables of runs are kept: as the next run and scripts read them, and to see what was last shown of what."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.suite.verdict import Finished, Verdict, file_seconds, sections, slowest

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "bench" / "results" / "tests.json"
RECORDED: dict[str, Path] = {
    "all": RESULTS,
    "java": RESULTS.with_name("tests_java.json"),
    "long": RESULTS.with_name("tests_long.json"),
}


@dataclass(frozen=True)
class Began:
    """What a run was of: what is checked out may change while it goes on."""

    commit: str  # ends in -dirty: with changes that are not committed
    at: str

    @classmethod
    def now(cls) -> Began:
        """Return what a run that begins now is of."""
        words = ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]  # no tag: a commit
        try:
            commit = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
        except (OSError, subprocess.CalledProcessError):
            commit = "unknown"
        return cls(commit, datetime.now(UTC).isoformat(timespec="seconds"))


def write_results(steps: Sequence[Finished], verdict: Verdict, total_s: float, began: Began, results: Path) -> None:
    """Write the table of a whole run as JSON."""
    told: dict[str, Any] = {
        "commit": began.commit,
        "began": began.at,
        "total_s": round(total_s),
        "cores": os.cpu_count(),
        "passed": verdict.passed,
        "failed": len(verdict.failed_tests),
        "failed_tests": list(verdict.failed_tests),
        "failed_steps": list(verdict.failed_steps),
        "skipped": len(verdict.skipped),
        "flaky": [{"test": flaky.nodeid, "first": flaky.first, "second": flaky.second} for flaky in verdict.flaky],
        "steps": [{"step": step.name, "wall_s": round(step.seconds, 1)} for step in steps],
        "sections": sections(steps),
        "slowest": slowest(steps),
        "files": file_seconds(steps),
    }
    # The table is kept in the repository, which names no folder of a machine. Traces of second tries do.
    text = json.dumps(told, indent=1).replace(f"{ROOT}/", "")
    results.write_text(text + "\n", encoding="utf-8")
