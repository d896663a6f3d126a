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
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench import chart, performance
from bench.hosted.plugins import plugin_settings
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
    "first",
    "offsets",
    "assign",
    "rest",
    "sql",
    "convert",
    "tasks",
    "trickle",
    "mirror",
    "batches",
    "console",
    "create",
    "scale",
)
# Not in the smoke test: several workers of its own, another Spark, turns of seconds; they would double its time.
OF_GROUPS = ("failover", "format", "groups", "live_group", "lag", "lag_stages", "iceberg")
ALONE = ("profile", "command", "table_parts", "delta")  # no Java worker to compare with
# ``java``: connectors in Java, unmodified, in the Java host beside Java Connect.
HOSTED = tuple(
    f"hosted.{kind}" for kind in ("lines", "lines_json", "sink", "snapshot", "changes", "jdbc", "start", "idle", "many")
)

KNOWN = (*NAMES, *OF_GROUPS, *ALONE, *HOSTED)


def main() -> int:
    """Run benchmarks; 0 when they ran, whatever they found."""
    parser = argparse.ArgumentParser(prog="bench.sh", description=__doc__)
    parser.add_argument(
        "names", nargs="+", choices=(*KNOWN, "java"), metavar="NAME", help=f"{', '.join(KNOWN)}; java: all hosted.*"
    )
    parser.add_argument("--short", action="store_true", help="a smoke run: small, its figures mean nothing")
    parser.add_argument("--java-only", action="store_true", help="leave ours out (checks the oracle alone)")
    parser.add_argument("--results", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    names = [benchmark for name in arguments.names for benchmark in (HOSTED if name == "java" else (name,))]
    if arguments.short:
        with _lab(arguments.java_only, names, shared=True) as lab:
            for name in names:
                _run(name, lab, arguments)
    else:
        for name in names:
            with _lab(arguments.java_only, [name]) as lab:
                _run(name, lab, arguments)
    return 0


@contextlib.contextmanager
def _lab(java_only: bool, names: Sequence[str], shared: bool = False) -> Iterator[Lab]:
    with tempfile.TemporaryDirectory(prefix="connectrt-bench-") as folder:
        properties = plugin_settings(Path(folder) / "plugins") if set(names) & set(HOSTED) else {}
        with Lab(Path(folder), java_only, shared, properties) as lab:
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
    if (
        name in (*performance.COMPARED, *performance.RECORDS, "profile")
        and not arguments.short
        and arguments.results == RESULTS
    ):
        performance.main()
    print(result.last_line(), flush=True)


if __name__ == "__main__":
    sys.exit(main())
