"""The tab Dead letters: browse, filter, edit, replay with a dry run before it, progress, delete up to the mark.

Owns ``/console/connectors/{connector}/dead-letters`` and its actions. A replay is asked for twice: the first time shows
what it would do.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, HTTPException
from starlette.requests import Request
from starlette.responses import Response

from spark_connect_rt.console.api import Api, ApiError, at
from spark_connect_rt.console.frame import PageFrame, connector_page, form
from spark_connect_rt.console.values import json_text, mapping, number, objects, text, whole
from spark_connect_rt.operations.preview.view import bytes_text
from spark_connect_rt.rest.paths import ConnectorName, decoded

# The tab Dead letters: letters to read, the filter over them, the edit and the replay of some. Pure.
#
# Owns: how a letter that was edited as a whole becomes the JSON patch that the API wants.


FILTERS = ("partition", "stage", "class", "message", "origin", "from_ms", "to_ms", "replayed")
"""Fields of the filter, as the API names them."""
PAGE = 50
_BRIEF = 60  # characters


@dataclass(frozen=True, slots=True)
class Shown:
    """A key, value or header. ``kind``: json, text, bytes or nothing (null); ``error``: the converter's message."""

    kind: str
    text: str
    error: str = ""
    cut: bool = False


def shown(value: Any) -> Shown:
    """Return a VALUE of the API to read."""
    encoded = mapping(value)
    error, cut = text(encoded.get("error")), bool(encoded.get("cut"))
    if "json" in encoded:
        return Shown("json", json_text(encoded["json"]), error, cut)
    if "text" in encoded:
        return Shown("text", text(encoded["text"]), error, cut)
    if "base64" in encoded:
        return Shown("bytes", bytes_text(encoded["base64"]), error, cut)
    return Shown("nothing", "null", error, cut)


@dataclass(frozen=True, slots=True)
class LetterView:
    """One dead letter, as the page shows it."""

    partition: int
    offset: int
    at_ms: int | None
    origin: str
    stage: str
    class_name: str
    exception: str
    message: str
    stacktrace: str
    task: int | None
    key: Shown
    value: Shown
    headers: tuple[tuple[str, Shown], ...]
    replayed_ms: int | None
    replayed_by: str

    @property
    def id(self) -> str:
        """Its place in the topic: ``partition/offset``."""
        return f"{self.partition}/{self.offset}"

    @property
    def brief(self) -> str:
        """The record on one line: its value, or its key where it has none."""
        whole_text = self.key.text if self.value.kind == "nothing" else self.value.text
        line = " ".join(whole_text.split())
        return line if len(line) <= _BRIEF else f"{line[: _BRIEF - 1]}…"

    @property
    def replayed(self) -> bool:
        """Return whether any replay has delivered it."""
        return bool(self.replayed_by)


@dataclass(frozen=True, slots=True)
class LettersPage:
    """Some letters, and where the next page begins."""

    topic: str
    letters: tuple[LetterView, ...]
    next: str


def letters_page(answer: Mapping[str, Any]) -> LettersPage:
    """Return the answer of ``GET /admin/dead-letters`` as a page."""
    letters = tuple(_letter_view(item) for item in objects(answer.get("letters")))
    return LettersPage(text(answer.get("topic")), letters, text(answer.get("next")))


def _letter_view(letter: Mapping[str, Any]) -> LetterView:
    origin, replayed = mapping(letter.get("origin")), mapping(letter.get("replayed"))
    place = text(origin.get("topic"))
    if place and whole(origin.get("partition")) is not None:
        place = f"{place}-{origin['partition']}@{text(origin.get('offset'))}"
    return LetterView(
        partition=whole(letter.get("partition")) or 0,
        offset=whole(letter.get("offset")) or 0,
        at_ms=whole(letter.get("at_ms")),
        origin=place,
        stage=text(letter.get("stage")),
        class_name=text(letter.get("class")),
        exception=text(letter.get("exception")),
        message=text(letter.get("message")),
        stacktrace=text(letter.get("stacktrace")),
        task=whole(letter.get("task")),
        key=shown(letter.get("key")),
        value=shown(letter.get("value")),
        headers=tuple((text(it.get("name")), shown(it.get("value"))) for it in objects(letter.get("headers"))),
        replayed_ms=whole(replayed.get("at_ms")),
        replayed_by=text(replayed.get("id")),
    )


def letter_filter(fields: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return the filter of a page's form or query, as the API wants it; empty fields do not filter."""
    given = {name: (fields.get(name) or [""])[0].strip() for name in FILTERS}
    return {name: value for name, value in given.items() if value}


def editable(letter: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
    """Return key, value and headers of a letter as JSON to be edited, which a JSON patch refers to.

    What is shown cut is left out, for an edit of its beginning would lose the rest; the second value names it.
    """
    parts = {"key": letter.get("key"), "value": letter.get("value"), "headers": letter.get("headers") or []}
    cut = [name for name in ("key", "value") if mapping(parts[name]).get("cut")]
    if any(mapping(item.get("value")).get("cut") for item in objects(parts["headers"])):
        cut.append("headers")
    return json_text({name: part for name, part in parts.items() if name not in cut}), tuple(cut)


def patch_of(before: Any, after: Any, path: str = "") -> list[dict[str, Any]]:
    """Return the JSON patch (RFC 6902) that makes ``after`` of ``before``; lists are replaced as a whole."""
    if isinstance(before, dict) and isinstance(after, dict):
        found: list[dict[str, Any]] = []
        for name in before:
            if name not in after:
                found.append({"op": "remove", "path": f"{path}/{_pointer(name)}"})
        for name, value in after.items():
            inner = f"{path}/{_pointer(name)}"
            if name in before:
                found += patch_of(before[name], value, inner)
            else:
                found.append({"op": "add", "path": inner, "value": value})
        return found
    same = type(before) is type(after) and before == after
    return [] if same else [{"op": "replace", "path": path, "value": after}]


def _pointer(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


class BadReplay(ValueError):
    """The form does not describe a replay; says what to change."""


def replay_body(connector: str, fields: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return the body of ``POST /admin/dead-letters/replays``. Raises BadReplay.

    ``fields`` of the form: target, which (chosen, filter or all), letter (places, repeated), the filter's fields,
    patch or edited and original (JSON), transforms (JSON), rate, dry_run.
    """
    first = {name: values[0] if values else "" for name, values in fields.items()}
    body: dict[str, Any] = {"connector": connector, "target": first.get("target") or "topic"}
    which = first.get("which") or "chosen"
    if which == "chosen":
        body["letters"] = _places(fields.get("letter") or ())
    elif which == "filter":
        body["filter"] = letter_filter(fields)
    edit = {}
    if patch := _patch(first):
        edit["patch"] = patch
    if (transforms := first.get("transforms", "").strip()) and (chain := _json(transforms, "the transformations")):
        edit["transforms"] = chain
    if edit:
        body["edit"] = edit
    if rate := first.get("rate", "").strip():
        body["rate"] = _rate(rate)
    for flag in ("again", "dry_run"):
        if first.get(flag):
            body[flag] = True
    return body


def _patch(first: Mapping[str, str]) -> list[Any]:
    if edited := first.get("edited", "").strip():
        return patch_of(_json(first.get("original", ""), "the letter as it was"), _json(edited, "the edited letter"))
    if not (written := first.get("patch", "").strip()):
        return []
    patch = _json(written, "the JSON patch")
    if not isinstance(patch, list) or not all(isinstance(operation, dict) and "op" in operation for operation in patch):
        raise BadReplay('The JSON patch must be a list: [{"op": "replace", "path": "/value/json/amount", "value": 10}]')
    return patch


def _places(given: Iterable[str]) -> list[dict[str, int]]:
    places = []
    for place in given:
        partition, _, offset = place.partition("/")
        if not (partition.isascii() and partition.isdigit() and offset.isascii() and offset.isdigit()):
            raise BadReplay(f"{place} is not a valid letter. Use partition/offset, for example 0/17")
        places.append({"partition": int(partition), "offset": int(offset)})
    if not places:
        raise BadReplay("No letters are selected. Select some, or replay all that match the filter.")
    return places


def _rate(given: str) -> float:
    try:
        rate = float(given)
    except ValueError:
        rate = 0.0
    if not 0 < rate < 1e9:
        raise BadReplay(f"The rate must be a number of letters per second above 0, not {given[:40]}")
    return rate


def _json(written: str, what: str) -> Any:
    try:
        return json.loads(written)
    except (ValueError, RecursionError) as error:
        raise BadReplay(f"{what[:1].upper()}{what[1:]} is not JSON: {error}") from error


@dataclass(frozen=True, slots=True)
class ReplayView:
    """One replay and how far it is."""

    id: str
    state: str
    target: str
    matched: int
    done: int
    failed: int
    rate: float | None
    error: str
    delivery: str
    who: str
    worker_id: str
    created_ms: int | None
    failures: tuple[tuple[str, str], ...]

    @property
    def tone(self) -> str:
        """How it is to be seen."""
        if self.state == "failed" or self.failed:
            return "bad"
        return {"running": "busy", "done": "ok", "stopped": "idle"}.get(self.state, "idle")


def replay_of(replay: Mapping[str, Any]) -> ReplayView:
    """Return a replay of the API."""
    failures = tuple(
        (f"{text(it.get('partition'))}/{text(it.get('offset'))}", text(it.get("error")))
        for it in objects(replay.get("failures"))
    )
    return ReplayView(
        id=text(replay.get("id")),
        state=text(replay.get("state")),
        target=text(replay.get("target")),
        matched=whole(replay.get("matched")) or 0,
        done=whole(replay.get("done")) or 0,
        failed=whole(replay.get("failed")) or 0,
        rate=number(replay.get("rate")),
        error=text(replay.get("error")),
        delivery=text(replay.get("delivery")),
        who=text(replay.get("who")),
        worker_id=text(replay.get("worker_id")),
        created_ms=whole(replay.get("created_ms")),
        failures=failures,
    )


@dataclass(frozen=True, slots=True)
class DryRunSample:
    """The outcome of a dry run for one letter; ``parts``: (key, value or headers, before, after) where they differ."""

    place: str
    to: str
    parts: tuple[tuple[str, str, str], ...]
    dropped: bool
    error: str


def samples(answer: Mapping[str, Any]) -> tuple[DryRunSample, ...]:
    """Return the letters of a dry run's answer."""
    found = []
    for item in objects(answer.get("sample")):
        before, after = mapping(item.get("before")), item.get("after")
        parts = _changed_parts(before, mapping(after)) if isinstance(after, Mapping) else ()
        place = f"{text(item.get('partition'))}/{text(item.get('offset'))}".strip("/")
        error = text(item.get("error"))
        found.append(DryRunSample(place, text(item.get("to")), parts, after is None and not error, error))
    return tuple(found)


def _changed_parts(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[tuple[str, str, str], ...]:
    """Return (part, before, after) for the key, the value and the headers that differ, as people read them."""
    return tuple(
        (part, _readable(before.get(part)), _readable(after.get(part)))
        for part in ("key", "value", "headers")
        if before.get(part) != after.get(part)
    )


def _readable(part: Any) -> str:
    if isinstance(part, list):
        return "\n".join(f"{text(it.get('name'))}: {shown(it.get('value')).text}" for it in objects(part)) or "none"
    return shown(part).text


def differences(before: Any, after: Any) -> tuple[tuple[str, str, str], ...]:
    """Return (path, before, after) for each place where two JSON values differ, lists as a whole."""
    found = []
    for operation in patch_of(before, after):
        old = _at(before, operation["path"])
        found.append(
            (operation["path"] or "/", text(old), text(operation.get("value")) if operation["op"] != "remove" else "")
        )
    return tuple(found)


def _at(value: Any, path: str) -> Any:
    for name in path.split("/")[1:]:
        value = mapping(value).get(name.replace("~1", "/").replace("~0", "~"))
    return value


_LETTERS, _REPLAYS = at("admin", "dead-letters"), at("admin", "dead-letters", "replays")
_ASKED = (*FILTERS, "target", "which", "letter", "patch", "edited", "original", "transforms", "rate", "again")
"""Fields of a replay's form that go along to the question whether it is really wanted."""


def add_routes(routes: APIRouter, frame: PageFrame) -> None:
    """Add the tab and its actions."""

    @routes.get("/connectors/{connector}/dead-letters")
    async def letters(request: Request, connector: ConnectorName) -> Response:
        name, api, given = decoded(connector), frame.api(request), request.query_params
        wanted = letter_filter({parameter: given.getlist(parameter) for parameter in FILTERS})
        query = {"connector": name, "limit": PAGE, "after": given.get("after", ""), **wanted}
        problem, page = None, letters_page({})
        try:
            page = letters_page(mapping(await api.get(_LETTERS, query)))
        except ApiError as error:
            if error.status == 401:
                raise
            problem = error
        following = urlencode({**wanted, "after": page.next}) if page.next else ""
        values = {"page": page, "wanted": wanted, "following": following, "problem": problem}
        values |= {"filters": FILTERS, "after": given.get("after", "")}
        return await connector_page(frame, request, name, "dead-letters", "connector_letters.html", **values)

    @routes.get("/connectors/{connector}/dead-letters/{partition:int}/{offset:int}/edit")
    async def edit(request: Request, connector: ConnectorName, partition: int, offset: int) -> Response:
        name = decoded(connector)
        letter = await _letter(frame.api(request), name, partition, offset)
        original, cut = editable(letter)
        values = {"name": name, "place": f"{partition}/{offset}", "original": original, "cut": cut}
        return frame.fragment(request, "_letter_edit.html", **values)

    _add_replays(routes, frame)
    _add_delete(routes, frame)


async def _letter(api: Api, name: str, partition: int, offset: int) -> Mapping[str, Any]:
    """Return one letter: the filter knows no offset, so its partition is read up to it. Raises HTTPException."""
    query: dict[str, Any] = {"connector": name, "partition": partition, "limit": 500, "after": ""}
    while True:
        answer = mapping(await api.get(_LETTERS, query))
        found = objects(answer.get("letters"))
        for letter in found:
            if letter.get("offset") == offset:
                return letter
        query["after"] = text(answer.get("next"))
        if not query["after"] or any((whole(letter.get("offset")) or 0) > offset for letter in found):
            raise HTTPException(404, f"Letter {partition}/{offset} of {name} no longer exists.")


def _add_replays(routes: APIRouter, frame: PageFrame) -> None:
    @routes.post("/connectors/{connector}/dead-letters/replay")
    async def replay(request: Request, connector: ConnectorName) -> Response:
        """Show what a replay would do; with ``sure``: begin it."""
        name, fields = decoded(connector), await form(request)
        sure = "sure" in fields
        body = _body(name, {**fields, "dry_run": [] if sure else ["1"]})
        answer = mapping(await frame.api(request).send("POST", _REPLAYS, body))
        if sure:
            return frame.done(request, f"Replay {text(answer.get('id'))} of {name} started.")
        asked = [(field, value) for field in _ASKED for value in fields.get(field, ()) if value]
        matched, shown = whole(answer.get("matched")), samples(answer)
        sendable = matched != len(shown) or not all(sample.error or sample.dropped for sample in shown)
        values = {"name": name, "samples": shown, "matched": matched, "asked": asked, "sendable": sendable}
        values |= {"complete": answer.get("complete") is not False, "target": body["target"]}
        return frame.fragment(request, "_replay_sure.html", **values)

    @routes.get("/connectors/{connector}/dead-letters/replays")
    async def replays(request: Request, connector: ConnectorName) -> Response:
        name = decoded(connector)
        found = objects(mapping(await frame.api(request).get(_REPLAYS)).get("replays"))
        lines = [replay_of(entry) for entry in found if entry.get("connector") == name]
        return frame.fragment(request, "_replays.html", name=name, replays=lines)

    @routes.post("/connectors/{connector}/dead-letters/replays/{replay_id}/{verb}")
    async def steer(request: Request, connector: ConnectorName, replay_id: str, verb: str) -> Response:
        if verb not in ("stop", "resume"):
            raise HTTPException(404, f"unknown action {verb[:40]}")
        which = decoded(replay_id)
        await frame.api(request).send("POST", at("admin", "dead-letters", "replays", which, verb), {})
        return frame.done(request, f"Replay {which} {'stopped' if verb == 'stop' else 'resumed'}.")


def _add_delete(routes: APIRouter, frame: PageFrame) -> None:
    @routes.get("/connectors/{connector}/dead-letters/delete")
    async def sure(request: Request, connector: ConnectorName) -> Response:
        name = decoded(connector)
        return frame.fragment(
            request,
            "_sure.html",
            title=f"Delete replayed letters of {name}?",
            explains="In each partition, letters before the first one that was not replayed are deleted permanently.",
            address=f"{request.scope['console']['root']}/console{at('connectors', name, 'dead-letters', 'delete')}",
            fields={},
            words="Delete replayed letters",
            danger=True,
        )

    @routes.post("/connectors/{connector}/dead-letters/delete")
    async def delete(request: Request, connector: ConnectorName) -> Response:
        name = decoded(connector)
        answer = mapping(
            await frame.api(request).send("POST", at("admin", "dead-letters", "delete"), {"connector": name})
        )
        count = whole(answer.get("deleted")) or 0
        remaining = ", ".join(
            f"{partition}/{text(offset)}" for partition, offset in mapping(answer.get("up_to")).items()
        )
        message = f"{count} letter{'' if count == 1 else 's'} of {name} deleted."
        return frame.done(request, f"{message} First remaining: {remaining}." if remaining else message)


def _body(name: str, fields: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    try:
        return replay_body(name, fields)
    except BadReplay as error:
        raise HTTPException(400, str(error)) from error
