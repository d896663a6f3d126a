"""Draws the benchmarks beside Java Connect from results/*.json, for the README.

``python -m bench.chart`` writes the picture; tests/unit/test_docs.py fails when the committed one says something else.
A bar to the right is better than Java, one to the left worse; the scale is logarithmic.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.svg import box, line, picture, text

ROOT = Path(__file__).parents[1]
PICTURE = Path("docs/images/benchmarks.svg")
# benchmark -> what its figure is, its unit, whose runs stand for Java (a group that waits five minutes is no measure)
ROWS: Mapping[str, tuple[str, str, str]] = {
    "source": ("file source, one task", "records/s", "java"),
    "eos": ("the same, exactly once", "records/s", "java"),
    "sink": ("file sink, one task", "records/s", "java"),
    "mirror": ("mirror source, one task", "records/s", "java"),
    "convert": ("JSON with schema, both ways", "records/CPU s", "java"),
    "latency": ("line appended to consumer, p50", "ms", "java"),
    "rest": ("list of 2,000 connectors", "ms", "java"),
    "start": ("start until REST answers", "s", "java"),
    "offsets": ("start on a long offset topic", "s", "java"),
    "failover": ("kill -9 until tasks run; Java: delay 0", "s", "java (delay 0)"),
    "assign": ("a big group's assignment", "s", "java"),
    "tasks": ("100 source tasks together", "records/s", "java"),
    "idle": ("20 idle tasks", "CPU s/min", "java"),
    "memory": ("memory with 20 tasks", "MiB", "java"),
}
_WIDTH, _ROW, _TOP, _MIDDLE, _DECADE = 860, 24, 58, 400, 105


@dataclass(frozen=True, slots=True)
class Bar:
    """One row: medians of both sides, and how many times better ours is (below 1: worse)."""

    words: str
    unit: str
    ours: float
    java: float
    better: float


def bars(results: Path) -> list[Bar]:
    """Return the rows of every benchmark in ROWS. Raises FileNotFoundError when one has no result."""
    found = []
    for name, (words, unit, java_runs) in ROWS.items():
        result = json.loads((results / f"{name}.json").read_text(encoding="utf-8"))
        ours, java = _median(result, "ours"), _median(result, java_runs)
        found.append(Bar(words, unit, ours, java, ours / java if result["higher_is_better"] else java / ours))
    return found


def _median(result: Mapping[str, Any], who: str) -> float:
    figures = [run["figures"] for run in result["runs"] if run["who"] == who]
    return statistics.median(figure[result["figure"]] for figure in figures if figure.get(result["figure"]) is not None)


def drawn(results: Path) -> str:
    """Return the picture."""
    shapes = [
        text(10, 20, "Beside Java Connect 4.1.1 on the same two cores: how many times better, by medians", "head"),
        text(_MIDDLE - 8, 46, "worse", "soft", "end"),
        text(_MIDDLE + 8, 46, "better", "soft"),
        text(_WIDTH - 10, 46, "ours / Java's", "soft", "end"),
    ]
    rows = bars(results)
    for number, bar in enumerate(rows):
        y = _TOP + number * _ROW
        length = _DECADE * math.log10(bar.better)
        shapes += [
            text(10, y + 14, bar.words),
            box(min(_MIDDLE, _MIDDLE + length), y + 3, max(1.0, abs(length)), 14, "a" if length >= 0 else "b"),
            text(_MIDDLE + max(0.0, length) + 6, y + 14, f"{bar.better:.2g}x", "head"),
            text(_WIDTH - 10, y + 14, f"{_plain(bar.ours)} / {_plain(bar.java)} {bar.unit}", "soft", "end"),
        ]
    bottom = _TOP + len(rows) * _ROW
    shapes += [line(_MIDDLE, _TOP - 4, _MIDDLE, bottom)]
    shapes += [text(10, bottom + 18, "./bench.sh NAME measures each again; bench/results/ holds every run.", "soft")]
    return picture(_WIDTH, bottom + 30, "Benchmarks of this runtime beside Java Kafka Connect", shapes)


def _plain(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def main() -> None:
    """Write the picture."""
    (ROOT / PICTURE).write_text(drawn(ROOT / "bench" / "results"), encoding="utf-8")


if __name__ == "__main__":
    main()
