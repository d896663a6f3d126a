"""What a benchmark found: values, one table, one JSON file, one last line."""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from spark_connect_rt.base.cache import KAFKA_VERSION
from spark_connect_rt.engine.startup.java_home import find_java


@dataclass
class Run:
    """One single measurement of one side; ``load`` is the machine's 1-minute load when it began."""

    who: str  # ours | java | java (control) | limit | ...
    figures: dict[str, Any]
    load: float = field(default_factory=lambda: round(os.getloadavg()[0], 2))


@dataclass
class Result:
    """Everything one benchmark has to say. ``ratio`` is ours to Java's, ``limit_share`` ours to the limit's."""

    name: str
    unit: str
    figure: str  # the key of Run.figures that ratio and limit are made of
    higher_is_better: bool
    target: str
    runs: list[Run] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    ours: float | None = None
    java: float | None = None
    limit: float | None = None
    ratio: float | None = None
    limit_share: float | None = None
    control: dict[str, float] = field(default_factory=dict)  # A/A: how far Java is from itself
    met: bool = False
    seconds: float = 0.0
    short: bool = False

    def conclude(self) -> None:
        """Fill medians, ratio, share and the A/A control from the runs."""
        self.ours, self.java, self.limit = (self.median(who) for who in ("ours", "java", "limit"))
        if self.ours and self.java:
            self.ratio = self.ours / self.java
        if self.ours and self.limit:
            self.limit_share = self.ours / self.limit if self.higher_is_better else self.limit / self.ours
        control = self.values("java (control)")
        if len(control) > 1:
            self.control = {"worst_to_best": round(max(control) / min(control), 3)}

    def values(self, who: str, figure: str | None = None) -> list[float]:
        """Return one figure of every run of one side."""
        key = figure or self.figure
        return [run.figures[key] for run in self.runs if run.who == who and run.figures.get(key) is not None]

    def median(self, who: str, figure: str | None = None) -> float | None:
        """Return the median of one figure of one side, None without runs."""
        values = self.values(who, figure)
        return statistics.median(values) if values else None

    def ratio_of(self, figure: str) -> float | None:
        """Return ours to Java's of another figure, by medians; None when a side has none."""
        ours, java = self.median("ours", figure), self.median("java", figure)
        return ours / java if ours and java else None

    def note_ratio(self, words: str, ratio: float | None) -> None:
        """Add a note with a ratio, if there is one."""
        if ratio is not None:
            self.notes.append(f"{words}: ratio {ratio:.2f}")

    def last_line(self) -> str:
        """Return the line that a script reads."""
        met = "yes" if self.met else "no"
        return f"{self.name} ratio={_plain(self.ratio)} limit={_plain(self.limit_share)} target={self.target} met={met}"


def print_table(result: Result) -> None:
    """Print every run, the medians, the control and the notes."""
    print(f"\n{result.name}: {result.unit}{' (short run: figures mean nothing)' if result.short else ''}")
    columns = list(dict.fromkeys(key for run in result.runs for key in run.figures if not key.startswith("all_")))
    rows = [[run.who, *(_cell(run.figures.get(key)) for key in columns), _cell(run.load)] for run in result.runs]
    _print_rows([["side", *columns, "load"], *rows])
    medians = [["median", "ours", "java", "limit"]]
    medians += [[result.figure, _cell(result.ours), _cell(result.java), _cell(result.limit)]]
    print()
    _print_rows(medians)
    if result.control:
        print(f"A/A control, Java beside itself: worst/best {result.control['worst_to_best']}")
    for note in result.notes:
        print(f"- {note}")


def write_result(result: Result, folder: Path) -> None:
    """Write results/NAME.json."""
    folder.mkdir(parents=True, exist_ok=True)
    document = {**asdict(result), "last_line": result.last_line(), "machine": machine()}
    (folder / f"{result.name}.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def machine() -> dict[str, Any]:
    """Describe where the figures come from, without names of machines or people."""
    java = find_java()
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "cores": psutil.cpu_count(),
        "cpu": _cpu_model(),
        "memory_gb": round(psutil.virtual_memory().total / 2**30, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "java": java.major,
        "kafka": KAFKA_VERSION,
        "commit": _commit(),
    }


def _cpu_model() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in text.splitlines() if "model name" in line), "unknown")


def _commit() -> str:
    try:
        found = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"],
            capture_output=True,
            text=True,
            check=True,
            cwd=Path(__file__).parent,
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return found.stdout.strip()


def _print_rows(rows: Sequence[Sequence[str]]) -> None:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)))


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.2f}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _plain(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.2f}"
