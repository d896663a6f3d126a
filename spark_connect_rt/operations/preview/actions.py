"""``connectrt preview`` and ``check``: the effects of a connector before it runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from spark_connect_rt.base.exit_codes import EXIT_PROBLEM
from spark_connect_rt.cli.files import SUFFIXES, read_documents, read_offsets, read_one
from spark_connect_rt.cli.output import show_data
from spark_connect_rt.cli.refusals import in_short
from spark_connect_rt.cli.session import Session
from spark_connect_rt.cli.tables import Output, compact, counted
from spark_connect_rt.cli.terminal import one_line
from spark_connect_rt.rest.client import calls, management_calls

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


def names_files(word: str) -> bool:
    """Return whether a word means a file or folder (``-``: standard input), and not a connector of the group."""
    return word == "-" or word.lower().endswith(SUFFIXES) or Path(word).exists()


def check(session: Session, files: Sequence[str], name: str | None, output: Output) -> int:
    """Have connectors checked against what they reach. Exit code 1: a problem of at least one.

    Args:
        session: the session of the command.
        files: files and folders of connectors, as ``apply`` takes them; ``-`` is standard input.
        name: a connector of the group instead, checked with the configuration that it has.
        output: table for people. Others print the answer of one connector, or a list of answers.
    """
    checked: list[tuple[str, Mapping[str, str]]]
    if name is not None:
        checked = [(name, session.ask(calls.config(name)))]
    else:
        checked = [(document.name, document.config) for document in read_documents(files)]
    answers = [(connector, session.ask(management_calls.check(config, connector))) for connector, config in checked]
    shown = [answer for _, answer in answers]
    if not show_data(session, shown[0] if len(shown) == 1 else shown, output):
        for connector, answer in answers:
            if len(answers) > 1:
                session.terminal.line(one_line(connector), "bold")
            _show_checks(session, answer)
    return 0 if all(answer["ok"] for answer in shown) else EXIT_PROBLEM


def _show_checks(session: Session, answer: Mapping[str, Any]) -> None:
    for line in management_calls.check_lines(answer):
        mark, style = _MARKS.get(line["level"], (line["level"], None))
        setting = f" [{line['setting']}]" if line.get("setting") else ""
        session.terminal.line(f"{mark}  {line['check']}{setting}: {one_line(in_short(line['what']))}", style)
        if line.get("change"):
            session.terminal.line(f"         -> {one_line(line['change'])}")


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
