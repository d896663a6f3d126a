"""``connectrt events`` and ``logs``: past events and log lines, and with ``--follow`` also new ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from spark_connect_rt.cli.output import show_data
from spark_connect_rt.cli.session import Session
from spark_connect_rt.cli.tables import Output, compact, time_text
from spark_connect_rt.errors import RetriableError
from spark_connect_rt.rest.client import management_calls
from spark_connect_rt.rest.client.calls import Call
from spark_connect_rt.rest.client.refusals import RefusedError

AGAIN_S = 2.0
_LEVELS = {"ERROR": "red", "FATAL": "red", "WARN": "yellow", "WARNING": "yellow", "DEBUG": "faint", "TRACE": "faint"}
_KINDS = {"failure": "red", "restart": "yellow", "rebalance": "cyan", "worker": "yellow"}
Show = Callable[[Session, Mapping[str, Any]], None]


def events(
    session: Session,
    name: str | None,
    kinds: Sequence[str],
    since_ms: int | None,
    limit: int,
    follow: bool,
    output: Output,
) -> int:
    """Print the group's events, the oldest first."""
    found = session.ask(management_calls.events(kind=kinds, connector=name or "", since_ms=since_ms, limit=limit))
    session.note_unanswered(found)
    ordered = sorted(found["events"], key=lambda event: event["at_ms"])
    last = ordered[-1]["id"] if ordered else ""
    show = _show_event if output in (Output.TABLE, Output.WIDE) else _show_json
    if not follow and show_data(session, ordered, output):
        return 0
    for event in ordered:
        show(session, event)
    if follow:
        _follow(session, management_calls.events_stream(kind=kinds, connector=name or ""), str(last), show)
    return 0


def logs(session: Session, word: str, tail: int, level: str, follow: bool, output: Output) -> int:
    """Print the last log lines of a connector (all its tasks), or of one task: NAME/0."""
    name, slash, number = word.rpartition("/")
    name, task = (name, int(number)) if slash and name and number.isdigit() else (word, None)
    show = _log_line(task is None) if output in (Output.TABLE, Output.WIDE) else _show_json
    if follow:  # the stream begins with what was: nothing falls between two questions
        _follow(session, management_calls.logs_stream(name, task, tail=tail, level=level.upper()), "", show)
    found = session.ask(management_calls.logs(name, task, tail=tail, level=level.upper()))
    session.note_unanswered(found)
    for line in found["lines"]:
        show(session, line)
    return 0


def _follow(session: Session, call: Call[Any], last: str, show: Show) -> NoReturn:
    """Print the events of a stream until Ctrl-C. A stream that ends is opened again behind its last event."""
    away = False
    while True:
        session.terminal.out.flush()
        try:
            for event in session.client.stream(call, last):
                last, away = event.id or last, False
                if isinstance(event.data, dict):
                    show(session, event.data)
                    session.terminal.out.flush()
        except RetriableError as error:
            if not away:
                session.terminal.note(f"connectrt: {error}; retrying")
            away = True
        except RefusedError as error:
            if error.status < 500:
                raise
        session.around.sleep(AGAIN_S)


def _show_event(session: Session, event: Mapping[str, Any]) -> None:
    terminal = session.terminal
    who = event.get("connector") or ""
    if who and event.get("task") is not None:
        who = f"{who}/{event['task']}"
    head = f"{time_text(event['at_ms'])}  {event['kind']:<9}  {event.get('worker_id') or '-'}"
    asked = f"(by {event['who']})" if event.get("who") else ""
    terminal.line(
        "  ".join(filter(None, (head, who, str(event.get("summary") or ""), asked))), _KINDS.get(event["kind"])
    )


def _log_line(with_task: bool) -> Show:
    def show(session: Session, line: Mapping[str, Any]) -> None:
        task = f" task {line['task']}" if with_task and line.get("task") is not None else ""
        where = f"{line.get('where') or '-'}@{line.get('host') or line.get('worker_id') or '-'}"
        text = f"{time_text(line['at_ms'])} {line['level']:<5}{task} {where} {line['logger']}: {line['message']}"
        session.terminal.line(text, _LEVELS.get(line["level"]))

    return show


def _show_json(session: Session, item: Mapping[str, Any]) -> None:
    session.terminal.write(compact(item) + "\n")
