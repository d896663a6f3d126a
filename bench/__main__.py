"""``python -m bench NAME [--short]``: one benchmark; prints its table, writes results/NAME.json, ends with its line."""

from __future__ import annotations

import argparse
import importlib
import sys
import tempfile
import time
from pathlib import Path

from bench.lab import Lab
from bench.report import Result, print_table, write_result

NAMES = ("source", "idle", "latency", "memory", "start", "assign")


def main() -> int:
    """Run one benchmark; 0 when it ran, whatever it found."""
    parser = argparse.ArgumentParser(prog="bench.sh", description=__doc__)
    parser.add_argument("name", choices=NAMES)
    parser.add_argument("--short", action="store_true", help="a smoke run: small, its figures mean nothing")
    parser.add_argument("--java-only", action="store_true", help="leave ours out (checks the oracle alone)")
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    arguments = parser.parse_args()
    run = importlib.import_module(f"bench.{arguments.name}").run
    begun = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="connectrt-bench-") as folder,
        Lab(Path(folder), java_only=arguments.java_only) as lab,
    ):
        result: Result = run(lab, arguments.short)
    result.seconds = round(time.monotonic() - begun, 1)
    result.short = arguments.short
    print_table(result)
    write_result(result, arguments.results)
    print(result.last_line())
    return 0


if __name__ == "__main__":
    sys.exit(main())
