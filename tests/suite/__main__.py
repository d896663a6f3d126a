"""``python -m tests.suite all|quick|long|spark 4.0``: runs the steps, prints what they say, ends with their times."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from tests.suite.other_spark import environment, variables
from tests.suite.result_file import RECORDED, ROOT, Began, write_results
from tests.suite.steps import RUNS, Lane, Stage, Step, again, on_spark
from tests.suite.verdict import Finished, Verdict, judged, outcomes, sections, slowest, to_try_again

# Monotonic seconds at which test.sh began: making the environment counts.
BEGUN = time.monotonic() - max(0.0, time.time() - float(os.environ.get("CONNECTRT_TESTS_BEGAN") or time.time()))


class Runner:
    """Runs steps as processes; a lane's output is shown whole, when the step ends, unless it runs alone."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._folder = folder
        self._environment = {**os.environ, **environment}
        self._lock = threading.Lock()
        self.finished: list[Finished] = []

    def stage(self, stage: Stage) -> None:
        """Run the lanes of a stage beside each other."""
        threads = [threading.Thread(target=self._lane, args=(lane, len(stage) == 1)) for lane in stage]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def step(self, step: Step, alone: bool) -> Finished:
        """Run one step; return what became of it."""
        report = self._folder / f"{step.name}.jsonl"
        command = [*step.command, *([f"--report-log={report}"] if step.tests else [])]
        began = time.monotonic()
        title = f"\n== {step.name} ({began - BEGUN:.0f}s)"
        if alone:
            print(title, flush=True)
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=self._environment,
            check=False,
            stdout=None if alone else subprocess.PIPE,
            stderr=None if alone else subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        if not alone:
            with self._lock:
                print(f"{title}\n{done.stdout}", flush=True)
        lines = map(json.loads, report.read_text(encoding="utf-8").splitlines()) if report.is_file() else ()
        return Finished(step.name, done.returncode, time.monotonic() - began, outcomes(lines), step.tries_again)

    def _lane(self, lane: Lane, alone: bool) -> None:
        for step in lane:
            done = self.step(step, alone)
            with self._lock:
                self.finished.append(done)


def show(steps: list[Finished], verdict: Verdict, total_s: float) -> None:
    """Print the table, what is flaky, what failed; the last line counts."""
    print("\n== times\nsection                        tests  seconds (sum of the tests, which run beside each other)")
    for row in sections(steps):
        print(f"{row['section']:<30} {row['tests'] or '':>5} {row['seconds']:>8.1f}")
    print("\nstep                            wall s")
    for step in steps:
        print(f"{step.name:<30} {step.seconds:>7.1f}")
    print("\nslowest tests")
    for row in slowest(steps):
        print(f"{row['seconds']:>7.1f} {row['test']}")
    if verdict.flaky:
        print("\n== FLAKY: failed, then passed alone; a defect to mend before anything is added to its area")
        for flaky in verdict.flaky:
            print(f"\n-- {flaky.nodeid}\nfirst try:\n{flaky.first}\nsecond try: {flaky.second}")
    for what, names in (
        ("FAILED steps", verdict.failed_steps),
        ("FAILED tests", verdict.failed_tests),
        ("SKIPPED tests (nothing may be skipped)", verdict.skipped),
    ):
        if names:
            print(f"\n{what}:\n  " + "\n  ".join(names))
    print(f"\n{'all checks and tests passed' if verdict.green else 'NOT GREEN'} after {total_s:.0f} s")
    print(f"{verdict.passed} passed, {len(verdict.failed_tests)} failed, {len(verdict.skipped)} skipped", flush=True)


def main(kind: str, line: str = "") -> int:
    """Run one kind of run, ``spark`` on the newest Spark of a line; return the exit code."""
    began = Began.now()
    python, run = sys.executable, RUNS.get(kind)
    if run is None:
        other = environment(line)
        python, run = str(other), on_spark(str(other), variables(other))
    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(Path(folder), run.environment)
        for stage in run.stages:
            runner.stage(stage)
        steps = runner.finished
        names = to_try_again(steps)
        retry = runner.step(again(names, python), alone=True) if names else None
    verdict = judged(steps, retry)
    total_s = time.monotonic() - BEGUN
    if kind in RECORDED:
        write_results(steps, verdict, total_s, began, RECORDED[kind])
    show(steps, verdict, total_s)
    return 0 if verdict.green else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
