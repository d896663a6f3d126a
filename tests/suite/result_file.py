"""Where the table of a run is kept, as the next run and scripts read it."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.suite.verdict import Finished, Verdict, file_seconds, sections, slowest

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "bench" / "results" / "tests.json"


def write_results(steps: Sequence[Finished], verdict: Verdict, total_s: float, results: Path = RESULTS) -> None:
    """Write the table of a whole run as JSON."""
    told: dict[str, Any] = {
        "total_s": round(total_s),
        "cores": os.cpu_count(),
        "passed": verdict.passed,
        "failed": len(verdict.failed_tests),
        "skipped": len(verdict.skipped),
        "flaky": [{"test": one.nodeid, "first": one.first, "second": one.second} for one in verdict.flaky],
        "steps": [{"step": one.name, "wall_s": round(one.seconds, 1)} for one in steps],
        "sections": sections(steps),
        "slowest": slowest(steps),
        "files": file_seconds(steps),
    }
    results.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
