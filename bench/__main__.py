"""``python -m bench NAME... [--short]``: prints each one's table, writes results/NAME.json, ends with its line.

Each benchmark has a laboratory of its own; smoke runs (``--short``) share one.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench import chart
from bench.lab import Lab
from bench.report import Result, print_table, write_result

RESULTS = Path(__file__).parent / "results"
NAMES = (
    "source",
    "eos",
    "sink",
    "idle",
    "latency",
    "memory",
    "start",
    "offsets",
    "assign",
    "rest",
    "sql",
    "convert",
    "tasks",
    "trickle",
    "mirror",
)
# Not in the smoke test: several workers of its own, another Spark; they would double its time.
OF_GROUPS = ("failover", "format")


def main() -> int:
    """Run benchmarks; 0 when they ran, whatever they found."""
    parser = argparse.ArgumentParser(prog="bench.sh", description=__doc__)
    parser.add_argument(
        "names", nargs="+", choices=NAMES + OF_GROUPS, metavar="NAME", help=", ".join(NAMES + OF_GROUPS)
    )
    parser.add_argument("--short", action="store_true", help="a smoke run: small, its figures mean nothing")
    parser.add_argument("--java-only", action="store_true", help="leave ours out (checks the oracle alone)")
    parser.add_argument("--results", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    if arguments.short:
        with _lab(arguments.java_only, shared=True) as lab:
            for name in arguments.names:
                _run(name, lab, arguments)
    else:
        for name in arguments.names:
            with _lab(arguments.java_only) as lab:
                _run(name, lab, arguments)
    return 0


@contextlib.contextmanager
def _lab(java_only: bool, shared: bool = False) -> Iterator[Lab]:
    with tempfile.TemporaryDirectory(prefix="connectrt-bench-") as folder, Lab(Path(folder), java_only, shared) as lab:
        yield lab


def _run(name: str, lab: Lab, arguments: argparse.Namespace) -> None:
    begun = time.monotonic()
    lab.complaints.clear()
    result: Result = importlib.import_module(f"bench.{name}").run(lab, arguments.short)
    result.seconds = round(time.monotonic() - begun, 1)
    result.short = arguments.short
    print_table(result)
    write_result(result, arguments.results)
    if name in chart.ROWS and not arguments.short and arguments.results == RESULTS:
        chart.main()
    print(result.last_line(), flush=True)


if __name__ == "__main__":
    sys.exit(main())
