"""The tab Dead letters: browse, filter, edit, replay with a dry run before it, progress, delete up to the mark.

Owns ``/console/connectors/{connector}/dead-letters`` and its actions. A replay is asked for twice: the first time shows
what it would do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, HTTPException
from starlette.requests import Request
from starlette.responses import Response

from spark_connect_rt.console.api import Api, ApiError, at
from spark_connect_rt.console.connector_page import connector_page
from spark_connect_rt.console.frame import Frame, form
from spark_connect_rt.console.values import mapping, objects, text, whole
from spark_connect_rt.operations.dead_letters.letters import (
    FILTERS,
    PAGE,
    BadReplay,
    editable,
    letter_filter,
    letters_page,
    replay_body,
    replay_of,
    samples,
)
from spark_connect_rt.rest.paths import ConnectorName, decoded

_LETTERS, _REPLAYS = at("admin", "dead-letters"), at("admin", "dead-letters", "replays")
_ASKED = (*FILTERS, "target", "which", "letter", "patch", "edited", "original", "transforms", "rate", "again")
"""Fields of a replay's form that go along to the question whether it is really wanted."""


def add_routes(routes: APIRouter, frame: Frame) -> None:
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


def _add_replays(routes: APIRouter, frame: Frame) -> None:
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


def _add_delete(routes: APIRouter, frame: Frame) -> None:
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
