"""Writes the figures of docs/explanation/performance.md from results/*.json.

``python -m bench.performance``; tests/unit/test_docs.py fails when the page says something else than the results.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGE = Path("docs/explanation/performance.md")
BEGIN, END = "<!-- figures: written by python -m bench.performance -->", "<!-- figures: end -->"
RECORDS = {"source": 3_000_000, "sink": 3_000_000, "mirror": 2_000_000}  # of each run of these benchmarks
# benchmark -> what it measures, and the unit; one without a result has no row yet
COMPARED: Mapping[str, tuple[str, str]] = {
    "source": ("File source, one task, lines of 100 bytes", "records/s"),
    "eos": ("The same, exactly once", "records/s"),
    "sink": ("File sink, one task, records of 100 bytes", "records/s"),
    "batches": ("Mirror source, one task, records of 100 bytes", "records/s"),
    "iceberg": ("Iceberg sink, one task, strings and rows of 10 columns in four forms", "rows/CPU s"),
    "hosted_snapshot": ("Debezium PostgreSQL, snapshot (Java host)", "records/s"),
    "hosted_jdbc": ("Debezium JDBC sink (Java host)", "records/s"),
    "hosted_sink": ("Kafka's file sink in Java (Java host)", "records/s"),
    "tasks": ("100 source tasks together", "records/s"),
    "lag": ("Mirrored record, timestamp to consumer, p50", "ms"),
    "failover": ("kill -9 until every task runs again, default settings", "s"),
    "first": ("Process start to the first record", "s"),
    "hosted_start": ("Create a Debezium connector to its first record", "s"),
    "idle": ("20 idle source tasks", "CPU s/min"),
    "memory": ("All processes with 20 tasks (PSS)", "MiB"),
}


def page(committed: str, results: Path) -> str:
    """Return the page with its figures as the results have them."""
    head, _, rest = committed.partition(BEGIN)
    return f"{head}{BEGIN}\n{_figures(results)}{END}{rest.partition(END)[2]}"


def _figures(results: Path) -> str:
    compared = ["", "| Benchmark | Measures | Unit | Ours | Java Connect | Times better | Measured |", "|---" * 7 + "|"]
    measured = {name: words for name, words in COMPARED.items() if (results / f"{name}.json").exists()}
    for name, (what, unit) in measured.items():
        compared.append(f"| `{name}` | {what} | {unit} | {_compared(_result(results, name))} |")
    cpu = ["", "| Benchmark | Ours, µs of CPU a record | Java Connect | Bare client, records/s |", "|---" * 4 + "|"]
    for name, records in RECORDS.items():
        result = _result(results, name)
        cells = [_cell(_median(result, who, "cpu_s"), 1e6 / records, 2) for who in ("ours", "java")]
        cpu.append(f"| `{name}` | {' | '.join(cells)} | {_cell(_median(result, 'limit', 'records_per_s'), 1, 0)} |")
    return "\n".join([*compared, *cpu]) + "\n\n"


def _compared(result: Mapping[str, Any]) -> str:
    ours, java = float(result["ours"]), float(result["java"])
    better = ours / java if result["higher_is_better"] else java / ours
    return f"{_short(ours)} | {_short(java)} | {_short(better)} | {result['machine']['at'][:10]}"


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _result(results: Path, name: str) -> dict[str, Any]:
    result: dict[str, Any] = json.loads((results / f"{name}.json").read_text(encoding="utf-8"))
    return result


def _median(result: Mapping[str, Any], who: str, figure: str) -> float | None:
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
