"""A migration report as text and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from spark_connect_rt.app.migrate.findings import ConnectorVerdict, Fate, Line, MigrationReport

_WHERE = {"python": "in Python", "java": "in the Java host", "": "nowhere"}


def text(report: MigrationReport) -> str:
    """Return the report for people: a line for each setting, then connectors, then the steps."""
    parts = [
        "WORKER FILE",
        *_lines(report.worker),
        "",
        "GROUP AND TOPICS (read only)",
        *_lines(report.topics),
        "",
        f"CONNECTORS: {_summary(report.connectors)}",
        *(word for connector in report.connectors for word in _connector(connector)),
        "",
        "STEPS",
        *_numbered(report.there),
        "",
        "AND BACK",
        *_numbered(report.back),
        "",
        _verdict(report),
    ]
    return "\n".join(parts)


def document(report: MigrationReport) -> dict[str, Any]:
    """Return the report for programs; fates and names of fields are stable."""
    whole = asdict(report) | {"must_change": report.must_change(), "counts": _counts(report)}
    return {name: _plain(part) for name, part in whole.items()}


def _plain(part: Any) -> Any:
    if isinstance(part, Fate):
        return part.value
    if isinstance(part, dict):
        return {name: _plain(value) for name, value in part.items()}
    return [_plain(value) for value in part] if isinstance(part, list | tuple) else part


def _lines(lines: Sequence[Line], indent: str = "  ") -> Iterator[str]:
    width = min(max((len(_given(line)) for line in lines), default=0), 72)
    for line in lines:
        yield f"{indent}{line.fate.value:8}{_given(line):{width}}  {line.why}".rstrip()


def _given(line: Line) -> str:
    return f"{line.name}={line.value}" if line.value else line.name


def _connector(verdict: ConnectorVerdict) -> Iterator[str]:
    mixed = "; its chain is mixed" if verdict.kind == "mixed" else ""
    yield (
        f"  {verdict.name}: {verdict.class_name} runs {_WHERE[verdict.runtime]}{mixed}; {verdict.state}, "
        f"{verdict.tasks} tasks"
    )
    if verdict.kind == "mixed":
        for element in verdict.elements:
            yield f"    {'':8}{element.setting}={element.name}: {_WHERE[element.runtime]}"
    yield from _lines(verdict.lines, "    ")


def _summary(connectors: Sequence[ConnectorVerdict]) -> str:
    if not connectors:
        return "none"
    kinds = Counter(_WHERE[connector.runtime] for connector in connectors)
    mixed = sum(connector.kind == "mixed" for connector in connectors)
    named = ", ".join(f"{count} {where}" for where, count in sorted(kinds.items()))
    return f"{named}; {mixed} with a mixed chain (records cross between JVM and Python once)" if mixed else named


def _numbered(steps: Sequence[str]) -> Iterator[str]:
    for number, step in enumerate(steps, start=1):
        yield f"  {number}. {step}"


def _counts(report: MigrationReport) -> dict[str, int]:
    found = Counter(line.fate.value for line in report.lines())
    return {fate.value: found[fate.value] for fate in Fate}


def _verdict(report: MigrationReport) -> str:
    counts = ", ".join(f"{count} {name}" for name, count in _counts(report).items())
    return f"{counts}. " + ("Something must be changed first." if report.must_change() else "Nothing must be changed.")
