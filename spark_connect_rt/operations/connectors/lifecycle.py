"""``connectrt pause|resume|stop|restart|delete``: many connectors at once; and ``wait``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from spark_connect_rt.base.exit_codes import EXIT_PROBLEM, EXIT_TIMED_OUT
from spark_connect_rt.cli.kinds import connector_row, connector_rows, rows_of, why
from spark_connect_rt.cli.options import Chosen
from spark_connect_rt.cli.output import sure
from spark_connect_rt.cli.selecting import chosen_names, failed, is_pattern, selector
from spark_connect_rt.cli.session import Session, exit_code_of, lines_of
from spark_connect_rt.cli.tables import counted
from spark_connect_rt.errors import BadRequestError, ConnectError, NotFoundError, RetriableError
from spark_connect_rt.rest.client import calls
from spark_connect_rt.rest.client.calls import Call
from spark_connect_rt.rest.client.refusals import UnknownNameError

AT_ONCE = 8
FEW = 5
SOON_S = 2.0  # so long a worker of the group may not know of a connector that another one has just created


@dataclass(frozen=True, slots=True)
class Verb:
    """The request for one connector, and the word for its result."""

    done: str
    call: Callable[[str], Call[Any]]


VERBS = {
    "pause": Verb("paused", calls.pause),
    "resume": Verb("resumed", calls.resume),
    "stop": Verb("stopped", calls.stop),
    "delete": Verb("deleted", calls.delete),
}


def steer(session: Session, verb: Verb, chosen: Chosen, dry_run: bool = False) -> int:
    """Ask for each connector's change; one that is refused does not keep the others back."""
    return _for_each(session, verb, _meant(session, chosen), dry_run)


def restart(session: Session, chosen: Chosen, connector_only: bool, dry_run: bool = False) -> int:
    """Restart connectors with their tasks, only what has failed, or single tasks (NAME/0)."""
    tasks = [word for word in chosen.words if _task_of(word)]
    if tasks and not chosen.failed:
        _refuse_other_words(chosen, tasks)
        known = set(session.ask(calls.connector_names()))
        if not any(word in known for word in tasks):
            return _for_each(session, Verb("restarted", _restart_task), tasks, dry_run, "task")
    verb = Verb("restarted", lambda name: calls.restart(name, not connector_only, chosen.failed))
    return _for_each(session, verb, _meant(session, chosen), dry_run)


def delete(session: Session, chosen: Chosen, yes: bool, dry_run: bool = False) -> int:
    """Delete connectors, after a question that names them. Their offsets stay."""
    names = _meant(session, chosen)
    if names and not yes and not dry_run:
        session.terminal.note(f"to be deleted: {', '.join(names)}")
        if not sure(session, yes, f"delete {counted(len(names), 'connector')}?", "deleted"):
            return EXIT_PROBLEM
    return _for_each(session, VERBS["delete"], names, dry_run)


def wait(session: Session, words: Sequence[str], condition: str, limit_s: float, quiet: bool = False) -> int:
    """Return when the condition holds for every connector; exit code 5: the time is up.

    ``state=RUNNING``: of the connector and each of its tasks (RUNNING: at least one); ``connector=...``: of the
    connector alone; ``delete``: it is gone; ``create``: it is there. Raises NotFoundError: a connector does not exist,
    and ``create`` is not what is waited for.
    """
    holds, wanted = _condition(condition)
    began_ms = session.around.now_ms()
    until_ms = began_ms + int(limit_s * 1000)
    last = "its state is not known yet"
    while True:
        try:
            rows = _rows(session, words, wanted)
            names = _waited_for(words, rows, wanted)
            missing = [name for name in names if not holds(rows.get(name))]
            if not missing:
                met = [word for word in words if not is_pattern(word)] if wanted == "delete" else names
                for name in () if quiet else met:
                    session.terminal.line(f"connector {name} condition met")
                return 0
            last = "; ".join(_described(name, rows.get(name)) for name in missing)
            absent = [name for name in missing if name not in rows]
            if absent and wanted not in ("create", "delete") and session.around.now_ms() - began_ms >= SOON_S * 1000:
                _refuse_unknown(session, absent)
        except RetriableError as error:
            last = str(error)
        left_s = (until_ms - session.around.now_ms()) / 1000
        if left_s <= 0:
            session.terminal.note(f"connectrt: condition not met after {limit_s:g} s: {last}")
            return EXIT_TIMED_OUT
        session.around.sleep(min(0.5, left_s))


def _meant(session: Session, chosen: Chosen) -> list[str]:
    limited = bool(chosen.words or chosen.selection or chosen.failed)
    if chosen.all == limited:
        raise BadRequestError("no connectors given. Use names or patterns, -l, --failed, or --all alone")
    if chosen.words and not (chosen.selection or chosen.failed) and not any(map(is_pattern, chosen.words)):
        return list(dict.fromkeys(chosen.words))  # no need to ask: each answers for itself
    rows = rows_of(session, chosen.words, selector(chosen.selection))
    names = [row["name"] for row in rows if not chosen.failed or failed(row)]
    if not names:
        session.terminal.note("no connectors match")
    return names


def _for_each(session: Session, verb: Verb, names: Sequence[str], dry_run: bool, kind: str = "connector") -> int:
    if dry_run:
        for name in names:
            session.terminal.line(f"{kind} {name} {verb.done} (dry run)")
        return 0

    def act(name: str) -> ConnectError | None:
        try:
            session.ask(verb.call(name))
        except ConnectError as error:
            return error
        return None

    worst = 0
    session.client  # noqa: B018  # made before the threads share it
    with ThreadPoolExecutor(min(AT_ONCE, max(1, len(names)))) as threads:
        for name, error in zip(names, threads.map(act, names), strict=True):
            if error is None:
                session.terminal.line(f"{kind} {name} {verb.done}")
                continue
            worst = worst or exit_code_of(error)
            for line in lines_of(error):
                session.terminal.note(f"{kind} {name}: {line}")
    return worst


def _restart_task(word: str) -> Call[None]:
    name, _, number = word.rpartition("/")
    return calls.restart_task(name, int(number))


def _task_of(word: str) -> bool:
    name, slash, number = word.rpartition("/")
    return bool(name and slash and number.isdigit())


def _refuse_other_words(chosen: Chosen, tasks: Sequence[str]) -> None:
    if len(tasks) != len(chosen.words) or chosen.selection or chosen.all:
        raise BadRequestError("restart either tasks (NAME/0 ...) or connectors, not both")


def _condition(text: str) -> tuple[Callable[[Mapping[str, Any] | None], bool], str]:
    if text == "delete":
        return (lambda row: row is None), "delete"
    if text == "create":
        return (lambda row: row is not None), "create"
    what, equals, state = text.partition("=")
    state = state.upper()
    if not equals or not state or what not in ("state", "connector"):
        raise BadRequestError(f"--for={text}: expected state=STATE, connector=STATE, create or delete")

    def holds(row: Mapping[str, Any] | None) -> bool:
        if row is None or row["state"] != state:
            return False
        if what == "connector":
            return True
        enough = bool(row["tasks"]) or state != "RUNNING"
        return enough and all(task["state"] == state for task in row["tasks"])

    return holds, what


def _rows(session: Session, words: Sequence[str], wanted: str) -> dict[str, Mapping[str, Any]]:
    """Return the rows to look at; a few names are asked for one by one: all of 2,000 twice a second is work."""
    if len(words) > FEW or any(map(is_pattern, words)):
        return {row["name"]: row for row in connector_rows(session.ask(calls.connectors()))}
    rows: dict[str, Mapping[str, Any]] = {}
    for name in words:
        try:
            if wanted in ("create", "delete"):  # one without a status is there, too
                rows[name] = connector_row(name, session.ask(calls.connector(name)), None)
            else:
                rows[name] = connector_row(name, None, session.ask(calls.status(name)))
        except UnknownNameError:
            continue
    return rows


def _waited_for(words: Sequence[str], rows: Mapping[str, Any], wanted: str) -> list[str]:
    if wanted == "delete":
        return [name for name in rows if any(_means(word, name) for word in words)]
    plain = [word for word in words if not is_pattern(word) or word in rows]
    patterns = [word for word in words if word not in plain]
    try:
        return [*plain, *(name for name in chosen_names(patterns, list(rows)) if name not in plain)]
    except NotFoundError:
        return list(words)  # not there yet: it may come


def _refuse_unknown(session: Session, names: Sequence[str]) -> None:
    """Raise NotFoundError if a connector does not exist; one without a status yet does."""
    chosen_names(names, session.ask(calls.connector_names()))


def _means(word: str, name: str) -> bool:
    from fnmatch import fnmatchcase

    return word == name or fnmatchcase(name, word)


def _described(name: str, row: Mapping[str, Any] | None) -> str:
    if row is None:
        return f"connector {name} does not exist"
    tasks = ", ".join(f"{task['id']} {task['state']}" for task in row["tasks"]) or "none"
    wrong = why(row)
    return f"connector {name} is {row['state']}, tasks: {tasks}{f' ({wrong})' if wrong else ''}"
