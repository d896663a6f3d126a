"""What the reports of a run say: counts, times, which tests may try again, which are flaky. Pure.

A line of the report is one of pytest-reportlog: a JSON object for each phase of each test.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

MOST_FLAKY = 3  # more in one run: something is wrong with the run, not with a test
SLOWEST = 10


@dataclass
class Outcome:
    """What became of one test: seconds of all its phases; the texts of those that failed."""

    nodeid: str
    seconds: float = 0.0
    failures: list[str] = field(default_factory=list)
    skipped: bool = False

    @property
    def failed(self) -> bool:
        """Return whether any phase failed."""
        return bool(self.failures)


@dataclass
class Finished:
    """A step that ended: its exit code, its wall seconds, its tests (none for a step that is no pytest)."""

    name: str
    code: int
    seconds: float
    outcomes: Sequence[Outcome] = ()
    tries_again: bool = False

    @property
    def failed_tests(self) -> list[Outcome]:
        """Return the tests that failed."""
        return [outcome for outcome in self.outcomes if outcome.failed]


@dataclass(frozen=True)
class Flaky:
    """A test that failed and then passed alone: what it said the first time."""

    nodeid: str
    first: str
    second: str


@dataclass
class Verdict:
    """The whole run."""

    failed_steps: list[str]
    failed_tests: list[str]
    flaky: list[Flaky]
    skipped: list[str]
    passed: int

    @property
    def green(self) -> bool:
        """Return whether the run counts as passed: a skipped test was not shown to hold."""
        return not (self.failed_steps or self.failed_tests or self.skipped)


def outcomes(lines: Iterable[Mapping[str, Any]]) -> list[Outcome]:
    """Fold report lines into one outcome a test; what fails while it is collected is an outcome, too."""
    found: dict[str, Outcome] = {}
    for line in lines:
        kind, result = line.get("$report_type"), line.get("outcome")
        if kind == "CollectReport" and result != "failed":
            continue
        if kind not in ("TestReport", "CollectReport"):
            continue
        outcome = found.setdefault(line["nodeid"], Outcome(line["nodeid"]))
        outcome.seconds += line.get("duration") or 0.0
        if result == "failed":
            outcome.failures.append(_text(line))
        outcome.skipped = outcome.skipped or (result == "skipped" and "wasxfail" not in line)
    return list(found.values())


def to_try_again(steps: Sequence[Finished]) -> tuple[str, ...]:
    """Return the tests that get one more try: those of real processes, if few of the run and nothing else failed."""
    failed = [test for step in steps if step.tries_again and step.code == 1 for test in step.failed_tests]
    if causes(failed) > MOST_FLAKY or not all("::" in outcome.nodeid for outcome in failed):
        return ()
    return tuple(outcome.nodeid for outcome in failed)


def causes(failed: Iterable[Outcome]) -> int:
    """Return how many things failed: what a file's tests share is set up once, and fails once for all of them."""

    def only_in_setup(outcome: Outcome) -> bool:
        return all(text.startswith("setup:") for text in outcome.failures)

    return len({outcome.nodeid.split("::", 1)[0] if only_in_setup(outcome) else outcome.nodeid for outcome in failed})


def judged(steps: Sequence[Finished], retry: Finished | None = None) -> Verdict:
    """Return the verdict; ``retry`` is the second try of what ``to_try_again`` named."""
    mended = (
        {outcome.nodeid: outcome for outcome in retry.outcomes if not outcome.failed and not outcome.skipped}
        if retry
        else {}
    )
    flaky, failed, broken = [], [], []
    for step in steps:
        left = []
        for test in step.failed_tests:
            if step.tries_again and test.nodeid in mended:
                second = f"passed in {mended[test.nodeid].seconds:.1f} s"
                flaky.append(Flaky(test.nodeid, "\n".join(test.failures), second))
            else:
                left.append(test.nodeid)
        failed += left
        if step.code != 0 and (left or not step.failed_tests or step.code != 1):
            broken.append(step.name)
    every = [outcome for step in steps for outcome in step.outcomes]
    skipped = [outcome.nodeid for outcome in every if outcome.skipped]
    passed = sum(not outcome.failed and not outcome.skipped for outcome in every) + len(flaky)
    return Verdict(broken, failed, flaky, skipped, passed)


def section_of(nodeid: str) -> str:
    """Return the folder that a test's time is booked under: ``integration/kafka``, ``unit``, ``e2e``."""
    parts = nodeid.split("::", 1)[0].split("/")[1:-1]
    return "/".join(parts[: 2 if parts[:1] in (["integration"], ["parity"]) else 1]) or "tests"


def sections(steps: Sequence[Finished]) -> list[dict[str, Any]]:
    """Return tests and their seconds by folder, and the wall seconds of each step that is no test."""
    rows: dict[str, dict[str, Any]] = {}
    for step in steps:
        if not step.outcomes:
            rows[step.name] = {"section": step.name, "tests": 0, "seconds": round(step.seconds, 1)}
        for outcome in step.outcomes:
            name = section_of(outcome.nodeid)
            row = rows.setdefault(name, {"section": name, "tests": 0, "seconds": 0.0})
            row["tests"] += 1
            row["seconds"] = round(row["seconds"] + outcome.seconds, 3)
    return list(rows.values())


def slowest(steps: Sequence[Finished], count: int = SLOWEST) -> list[dict[str, Any]]:
    """Return the tests that took longest."""
    every = sorted((outcome for step in steps for outcome in step.outcomes), key=lambda outcome: -outcome.seconds)
    return [{"test": outcome.nodeid, "seconds": round(outcome.seconds, 1)} for outcome in every[:count]]


def file_seconds(steps: Sequence[Finished]) -> dict[str, float]:
    """Return seconds by file of the steps whose tests real processes carry: the next run begins with the longest."""
    files: dict[str, float] = {}
    for outcome in (outcome for step in steps if step.tries_again for outcome in step.outcomes):
        name = outcome.nodeid.split("::", 1)[0]
        files[name] = files.get(name, 0.0) + outcome.seconds
    return {name: round(seconds, 1) for name, seconds in sorted(files.items(), key=lambda item: -item[1])}


def _text(line: Mapping[str, Any]) -> str:
    told = line.get("longrepr")
    if isinstance(told, Mapping):
        crash = (told.get("reprcrash") or {}).get("message", "")
        entries = (told.get("reprtraceback") or {}).get("reprentries", [])
        traces = ["\n".join(entry["data"].get("lines", [])) for entry in entries if entry.get("data")]
        told = "\n".join([*traces, crash])
    captured = "\n".join(f"-- {name}\n{text}" for name, text in line.get("sections", []))
    return f"{line.get('when', 'collect')}: {told}\n{captured}".rstrip()
