"""``connectrt preview`` and ``check``: the effects of a connector before it runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from spark_connect_rt.base.exit_codes import EXIT_PROBLEM
from spark_connect_rt.cli.files import read_offsets, read_one
from spark_connect_rt.cli.output import show_data
from spark_connect_rt.cli.refusals import in_short
from spark_connect_rt.cli.session import Session
from spark_connect_rt.cli.tables import Output, compact, counted
from spark_connect_rt.cli.terminal import one_line
from spark_connect_rt.rest.client import management_calls

_MARKS = {"ok": ("ok     ", "green"), "warning": ("warning", "yellow"), "problem": ("PROBLEM", "red")}
_ENDS = {
    "records": "record limit reached",
    "time": "time limit",
    "nothing more": "no more records",
    "bytes": "size limit",
}
_SHOWN = 300  # characters of a key or value


def preview(
    session: Session,
    word: str | None,
    file: str | None,
    options: Mapping[str, Any],
    offsets: str | None,
    output: Output,
) -> int:
    """Have a connector started without a trace, and show its records stage by stage.

    ``file``: the connector's; else ``word`` is a connector's name, or a file where there is one of that name.
    """
    wanted: dict[str, Any] = {key: value for key, value in options.items() if value is not None}
    named = word or ""
    if file is not None or named == "-" or Path(named).is_file():
        document = read_one(file or named)
        wanted |= {"name": document.name, "config": dict(document.config)}
    else:
        wanted["name"] = named
    if offsets is not None:
        wanted |= {"from": "given", "offsets": read_offsets(offsets)}
    answer = session.ask(management_calls.preview(wanted))
    if not show_data(session, answer, output):
        for number, record in enumerate(answer["records"], 1):
            _show_record(session, number, record["stages"])
        session.terminal.line(_summary(answer))
    if not answer["records"] and not answer.get("error") and wanted.get("from") == "stored":
        session.terminal.note(
            "nothing new after the stored offsets. Use --from start to see records from the beginning"
        )
    if answer.get("error"):
        session.terminal.note(f"connectrt: {answer['error']}")
    failed = answer.get("error") or any(
        stage.get("error") for previewed in answer["records"] for stage in previewed["stages"]
    )
    return EXIT_PROBLEM if failed else 0


def _summary(answer: Mapping[str, Any]) -> str:
    why = _ENDS.get(answer["ended"], answer["ended"])
    return f"{counted(len(answer['records']), 'record')} in {answer['seconds']:.1f} s; stopped: {why}"


def check(session: Session, file: str, output: Output) -> int:
    """Have a file's connector checked against what it reaches. Exit code 1: a problem."""
    document = read_one(file)
    answer = session.ask(management_calls.check(document.config, document.name))
    if show_data(session, answer, output):
        return 0 if answer["ok"] else EXIT_PROBLEM
    for line in management_calls.check_lines(answer):
        mark, style = _MARKS.get(line["level"], (line["level"], None))
        setting = f" [{line['setting']}]" if line.get("setting") else ""
        session.terminal.line(f"{mark}  {line['check']}{setting}: {one_line(in_short(line['what']))}", style)
        if line.get("change"):
            session.terminal.line(f"         -> {one_line(line['change'])}")
    return 0 if answer["ok"] else EXIT_PROBLEM


def _show_record(session: Session, number: int, stages: Sequence[Mapping[str, Any]]) -> None:
    terminal = session.terminal
    terminal.line(f"record {number}", "bold")
    before: Any = None
    for stage in stages:
        record = stage.get("record")
        if stage.get("error"):
            terminal.line(f"  {stage['stage']}: {one_line(stage['error'])}", "red")
        elif record is None:
            terminal.line(f"  {stage['stage']}: dropped", "yellow")
        elif record == before:
            terminal.line(f"  {stage['stage']}: unchanged{_sizes(stage.get('bytes'))}", "faint")
        else:
            place = one_line(record.get("topic") or "-")
            if record.get("partition") is not None:
                place += f"-{record['partition']}"
            terminal.line(f"  {stage['stage']}: {place}{_sizes(stage.get('bytes'))}")
            for part in ("key", "value"):
                terminal.line(f"    {part}: {one_line(compact(record.get(part)), _SHOWN)}")
            for header in record.get("headers") or ():
                terminal.line(f"    header {one_line(header['name'])}: {one_line(compact(header['value']), _SHOWN)}")
        before = record


def _sizes(sizes: Mapping[str, Any] | None) -> str:
    if not sizes:
        return ""
    parts = [f"{part} {_length(sizes[part])} bytes" for part in ("key", "value") if sizes.get(part) is not None]
    return f" ({', '.join(parts)})" if parts else ""


def _length(base64: str) -> int:
    return len(base64) * 3 // 4 - base64.count("=")
