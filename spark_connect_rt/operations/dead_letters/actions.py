"""``connectrt dlq``: dead letters listed, shown, replayed, deleted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spark_connect_rt.base.exit_codes import EXIT_PROBLEM
from spark_connect_rt.cli.files import read_json
from spark_connect_rt.cli.kinds import kind_of
from spark_connect_rt.cli.output import show_data, show_items, sure
from spark_connect_rt.cli.session import Session
from spark_connect_rt.cli.tables import Column, Output, compact, counted, time_text
from spark_connect_rt.cli.terminal import one_line
from spark_connect_rt.errors import BadRequestError, NotFoundError
from spark_connect_rt.operations.dead_letters.model import LETTERS_MAX
from spark_connect_rt.rest.client import management_calls
from spark_connect_rt.rest.client.shapes import LetterJson, ReplayJson

_REPLAYS = (
    Column("ID", lambda row: row["id"]),
    Column("CONNECTOR", lambda row: row.get("connector")),
    Column("TARGET", lambda row: row.get("target")),
    Column("STATE", lambda row: row["state"]),
    Column("MATCHED", lambda row: row.get("matched")),
    Column("DONE", lambda row: row.get("done")),
    Column("FAILED", lambda row: row.get("failed")),
    Column("ERROR", lambda row: row.get("error"), limit=60),
)
_POLL_S = 1.0


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """How far a replay is taken."""

    dry_run: bool = False
    yes: bool = False
    wait: bool = False


def listed(session: Session, filters: Mapping[str, Any], limit: int, output: Output) -> int:
    """Write letters, oldest first; further pages are asked for up to ``limit``."""
    kind = kind_of("dead-letters")
    found: list[LetterJson] = []
    after = ""
    while len(found) < limit:
        page = session.ask(
            management_calls.letters(after=after, limit=min(limit - len(found), LETTERS_MAX), filters=filters)
        )
        found += page["letters"]
        after = page.get("next") or ""
        if not after:
            break
    show_items(session, found, kind.columns, output, key=_place_text, nothing="no dead letters")
    if after and found:
        session.terminal.note(f"there are more than {limit} letters. Use --limit or a filter")
    return 0


def shown(session: Session, name: str, word: str, output: Output) -> int:
    """Write one letter whole: PARTITION/OFFSET."""
    letter = _letter(session, name, word)
    if show_data(session, letter, output):
        return 0
    line = session.terminal.line
    origin = letter.get("origin") or {}
    line(f"{letter['topic']}-{letter['partition']}@{letter['offset']}, {time_text(letter.get('at_ms'))}", "bold")
    line(f"  origin:     {origin.get('topic')}-{origin.get('partition')}@{origin.get('offset')}")
    line(f"  connector:  {letter.get('connector_name')}, task {letter.get('task')}")
    line(f"  stage:      {letter.get('stage')}, {letter.get('class')}")
    line(f"  exception:  {letter.get('exception')}: {one_line(letter.get('message') or '')}", "red")
    line(f"  key:        {value_text(letter.get('key'))}")
    line(f"  value:      {value_text(letter.get('value'))}")
    for header in letter.get("headers") or ():
        line(f"  header:     {one_line(header['name'])} = {value_text(header['value'])}")
    if letter.get("replayed"):
        line(f"  replayed:   {compact(letter['replayed'])}")
    for trace in (letter.get("stacktrace") or "").splitlines():
        line(f"    {trace}", "faint")
    return 0


def value_text(value: Mapping[str, Any] | None) -> str:
    """Return a key or value in one line: JSON, text, or its bytes."""
    if value is None:
        return "null"
    error = f"  ({one_line(value['error'])})" if value.get("error") else ""
    if "json" in value:
        return one_line(compact(value["json"])) + error
    if "text" in value:
        return one_line(compact(value["text"])) + error
    return f"base64 {value.get('base64')}{error}"


def replay(
    session: Session,
    name: str,
    words: Sequence[str],
    wanted: Mapping[str, Any],
    how: ReplayOptions,
) -> int:
    """Replay letters: those named (PARTITION/OFFSET), those of a filter, or all."""
    body: dict[str, Any] = {"connector": name, **wanted}
    if words:
        body["letters"] = [_place(word) for word in words]
    if how.dry_run or not how.yes:
        sample = session.ask(management_calls.replay({**body, "dry_run": True}))
        _show_sample(session, sample)
        if how.dry_run:
            return EXIT_PROBLEM if any(letter.get("error") for letter in sample.get("sample") or ()) else 0
        if not sure(session, how.yes, "replay them?", "replayed"):
            return EXIT_PROBLEM
    started = session.ask(management_calls.replay(body))
    session.terminal.line(f"replay {started['id']} {started['state']}")
    return _awaited(session, started["id"]) if how.wait else 0


def status(session: Session, number: str | None, output: Output) -> int:
    """Write one replay, or all."""
    found = [session.ask(management_calls.replay_of(number))] if number else session.ask(management_calls.replays())
    if not (number and show_data(session, found[0], output)):
        show_items(session, found, _REPLAYS, output, key=lambda row: row["id"], nothing="no replays")
    return 0


def stop(session: Session, number: str) -> int:
    """Stop a replay; return the exit code."""
    session.ask(management_calls.stop_replay(number))
    session.terminal.line(f"replay {number} stopped")
    return 0


def resume(session: Session, number: str, wait: bool) -> int:
    """Resume a stopped or failed replay."""
    session.ask(management_calls.resume_replay(number))
    session.terminal.line(f"replay {number} resumed")
    return _awaited(session, number) if wait else 0


def delete(session: Session, name: str, topic: bool, yes: bool) -> int:
    """Delete the letters before the first that is not replayed."""
    where = "topic" if topic else "connector"
    if not sure(session, yes, f"delete the replayed letters of {where} {name}?", "deleted"):
        return EXIT_PROBLEM
    answer = session.ask(management_calls.delete_letters(**{where: name}))
    ends = ", ".join(f"{partition}/{offset}" for partition, offset in answer["up_to"].items())
    rest = f"; first remaining: {ends}" if ends else ""
    deleted = counted(answer["deleted"], "letter")
    session.terminal.line(f"{where} {name}: {deleted} of {answer['topic']} deleted{rest}")
    return 0


def _awaited(session: Session, number: str) -> int:
    said = ""
    while True:
        progress: ReplayJson = session.ask(management_calls.replay_of(number))
        words = f"{progress['done']} of {progress['matched']} done, {progress['failed']} failed"
        if progress["state"] != "running":
            break
        if words != said:
            session.terminal.note(words)
        said = words
        session.around.sleep(_POLL_S)
    session.terminal.line(f"replay {number} {progress['state']}: {words}")
    if progress.get("error"):
        session.terminal.note(f"connectrt: {progress['error']}")
    return 0 if progress["state"] == "done" and not progress["failed"] else EXIT_PROBLEM


def _show_sample(session: Session, sample: Mapping[str, Any]) -> None:
    line = session.terminal.line
    for letter in sample.get("sample") or ():
        line(
            f"{letter.get('topic', '')}-{letter.get('partition', '')}@{letter.get('offset', '')}"
            f" -> {letter.get('to') or '-'}",
            "bold",
        )
        if letter.get("error"):
            line(f"  {one_line(letter['error'])}", "red")
        before, after = letter.get("before") or {}, letter.get("after") or {}
        for part in ("key", "value"):
            if letter.get("after") is None or before.get(part) == after.get(part):
                line(f"    {part}: {value_text(before.get(part))}")
            else:
                line(f"  - {part}: {value_text(before.get(part))}", "red")
                line(f"  + {part}: {value_text(after.get(part))}", "green")
    line(counted(sample.get("matched", 0), "letter") + ("" if sample.get("complete", True) else " and perhaps more"))


def _letter(session: Session, name: str, word: str) -> LetterJson:
    place = _place(word)
    after = ""
    while True:
        page = session.ask(
            management_calls.letters(
                after=after, limit=LETTERS_MAX, filters={"connector": name, "partition": place["partition"]}
            )
        )
        for letter in page["letters"]:
            if (letter["partition"], letter["offset"]) == (place["partition"], place["offset"]):
                return letter
        after = page.get("next") or ""
        if not after or not page["letters"]:
            raise NotFoundError(f"connector {name} has no dead letter {word}")


def _place_text(letter: Mapping[str, Any]) -> str:
    return f"{letter['partition']}/{letter['offset']}"


def _place(word: str) -> dict[str, int]:
    partition, slash, offset = word.partition("/")
    if not slash or not partition.isdigit() or not offset.isdigit():
        raise BadRequestError(f"{word}: expected PARTITION/OFFSET, as dlq list shows it")
    return {"partition": int(partition), "offset": int(offset)}


def edit_of(patch_file: str | None, transforms_file: str | None) -> dict[str, Any]:
    """Return the part of a replay's body that says how letters are edited. Raises BadRequestError."""
    edit: dict[str, Any] = {}
    for key, file, kind in (("patch", patch_file, list), ("transforms", transforms_file, dict)):
        if file is None:
            continue
        edit[key] = read_json(file)
        if not isinstance(edit[key], kind):
            raise BadRequestError(f"{file}: expected a JSON {'array of operations' if kind is list else 'object'}")
    return {"edit": edit} if edit else {}
