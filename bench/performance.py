"""Writes the figures of docs/explanation/performance.md from results/*.json.

``python -m bench.performance``; tests/unit/test_docs.py fails when the page says something else than the results.
"""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGE = Path("docs/explanation/performance.md")
BEGIN, END = "<!-- figures: written by python -m bench.performance -->", "<!-- figures: end -->"
RECORDS = {"source": 3_000_000, "sink": 3_000_000, "mirror": 2_000_000}  # of each run of these benchmarks


def page(committed: str, results: Path) -> str:
    """Return the page with its figures as the results have them."""
    head, _, rest = committed.partition(BEGIN)
    return f"{head}{BEGIN}\n{_figures(results)}{END}{rest.partition(END)[2]}"


def _figures(results: Path) -> str:
    lines = [
        "",
        "| whole path | ours, µs of CPU a record | Java | records/s, ours | Java | bare client |",
        "|---" * 6 + "|",
    ]
    for name, records in RECORDS.items():
        result = json.loads((results / f"{name}.json").read_text(encoding="utf-8"))
        cells = [_cell(_median(result, who, "cpu_s"), 1e6 / records, 2) for who in ("ours", "java")]
        cells += [_cell(_median(result, who, "records_per_s"), 1, 0) for who in ("ours", "java", "limit")]
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    profile = json.loads((results / "profile.json").read_text(encoding="utf-8"))
    lines += ["", "| step alone | µs of CPU a record |", "|---|---|"]
    lines += [f"| {run['who']} | {run['figures']['us']:.3f} |" for run in profile["runs"]]
    return "\n".join(lines) + "\n\n"


def _median(result: dict[str, Any], who: str, figure: str) -> float | None:
    found = [run["figures"][figure] for run in result["runs"] if run["who"] == who and figure in run["figures"]]
    return statistics.median(found) if found else None


def _cell(value: float | None, factor: float, digits: int) -> str:
    return "-" if value is None else f"{value * factor:,.{digits}f}"


def main() -> None:
    """Write the page."""
    path = ROOT / PAGE
    path.write_text(page(path.read_text(encoding="utf-8"), ROOT / "bench/results"), encoding="utf-8")


if __name__ == "__main__":
    main()
