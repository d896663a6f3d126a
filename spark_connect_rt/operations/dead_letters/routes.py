"""``/admin/dead-letters``: pages of a connector's dead letters, replays of them (ours)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from spark_connect_rt.base.json_text import JsonShape, described
from spark_connect_rt.errors import BadRequestError, NotFoundError
from spark_connect_rt.operations.dead_letters.letter import FILTERS, NUMBER_MAX, whole_number
from spark_connect_rt.operations.dead_letters.model import (
    LETTERS_DEFAULT,
    LETTERS_MAX,
    SINK,
    TOPIC,
    DeadLetterDesk,
    DeadLetterReplays,
    DeletedLetters,
    DryRun,
    LetterPage,
    LetterQuery,
    ReplayInfo,
    ReplayList,
    WantedReplay,
)
from spark_connect_rt.rest.client_identity import who
from spark_connect_rt.rest.json_bodies import json_object, object_field, switch_field, text_field
from spark_connect_rt.rest.paths import decoded, json_body
from spark_connect_rt.rest.requests import JsonResponse, RestContext
from spark_connect_rt.rest.shapes import Operation, QueryParameter

_PATH = "/admin/dead-letters"
_TEXT, _NUMBER = {"type": "string"}, {"type": "integer", "minimum": 0}
_REFUSALS = {
    400: "Neither connector nor topic is set, or a filter or the cursor is invalid.",
    403: "The topic is an internal topic of the workers or the brokers.",
    404: "The connector does not exist, or this worker does not serve dead letters.",
}
_ONE = f"{_PATH}/replays/{{replay}}"
_NO_REPLAY = {404: "The replay does not exist, or this worker does not serve dead letters."}
_ENDED = {400: "The replay has ended, or this worker has no topic for the state of replays."}
_FILTER_PARAMETERS = (
    QueryParameter("connector", "Dead letters in the queue of this connector.", _TEXT),
    QueryParameter(
        "topic", "Dead letters in this topic. With a connector: only the ones that the connector wrote.", _TEXT
    ),
    QueryParameter("partition", "Partition of the queue.", _NUMBER),
    QueryParameter("stage", "Stage of the error, such as VALUE_CONVERTER.", _TEXT),
    QueryParameter("class", "Class that failed or class of the exception: its full name or the last part.", _TEXT),
    QueryParameter("message", "Part of the exception's message. Case does not matter.", _TEXT),
    QueryParameter("origin", "Topic, or topic-partition, that the record came from.", _TEXT),
    QueryParameter("from_ms", "Earliest timestamp of the dead letter.", _NUMBER),
    QueryParameter("to_ms", "Timestamp that all dead letters are older than.", _NUMBER),
    QueryParameter("replayed", "true: only replayed dead letters. false: only the others.", {"type": "boolean"}),
)


@dataclass(frozen=True, slots=True)
class LetterPlace(JsonShape):
    """One letter of a queue."""

    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class NewReplay(JsonShape):
    """Letters to replay: of a connector's queue or a topic, all that the filter lets through, or these."""

    connector: str | None = None
    topic: str | None = None
    target: str = field(default=TOPIC, metadata=described("Where to.", enum=[TOPIC, SINK]))
    filter: Mapping[str, Any] = field(
        default_factory=dict, metadata=described("The filter parameters of GET /admin/dead-letters.")
    )
    letters: Sequence[LetterPlace] | None = None
    edit: Mapping[str, Any] = field(
        default_factory=dict,
        metadata=described(
            "patch: a JSON Patch (RFC 6902) over key, value and headers. transforms: a chain of transformations."
        ),
    )
    rate: float | None = field(default=None, metadata=described("Most dead letters per second."))
    again: bool = field(default=False, metadata=described("Also replay dead letters that were replayed before."))
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Nothing(JsonShape):
    """An empty object: the request has no fields."""


@dataclass(frozen=True, slots=True)
class LettersToDelete(JsonShape):
    """Whose replayed letters are to be deleted."""

    connector: str | None = None
    topic: str | None = None


OPERATIONS: Mapping[tuple[str, str], Operation] = {
    ("GET", _PATH): Operation(
        "listDeadLetters",
        {200: LetterPage},
        _REFUSALS,
        parameters=(
            *_FILTER_PARAMETERS,
            QueryParameter("after", "'next' of the previous page.", _TEXT),
            QueryParameter(
                "limit", "Dead letters per page.", {**_NUMBER, "maximum": LETTERS_MAX, "default": LETTERS_DEFAULT}
            ),
        ),
    ),
    ("POST", f"{_PATH}/replays"): Operation("replayDeadLetters", {200: DryRun, 201: ReplayInfo}, _REFUSALS, NewReplay),
    ("GET", f"{_PATH}/replays"): Operation("listReplays", {200: ReplayList}, _NO_REPLAY),
    ("GET", _ONE): Operation("getReplay", {200: ReplayInfo}, _NO_REPLAY),
    ("POST", f"{_ONE}/stop"): Operation("stopReplay", {200: ReplayInfo}, _NO_REPLAY | _ENDED, Nothing),
    ("POST", f"{_ONE}/resume"): Operation("resumeReplay", {200: ReplayInfo}, _NO_REPLAY | _ENDED, Nothing),
    ("POST", f"{_PATH}/delete"): Operation("deleteReplayedLetters", {200: DeletedLetters}, _REFUSALS, LettersToDelete),
}
T = TypeVar("T")


def add_routes(
    routes: APIRouter, context: RestContext, letters: DeadLetterDesk | None, replays: DeadLetterReplays | None
) -> None:
    """Add the routes; None: this worker does not serve that."""

    @routes.get(_PATH)
    async def page(request: Request) -> Response:
        """Return dead letters in the order of their times, decoded by their connector's converters."""
        desk = served(letters)
        query = read_query(request.query_params)
        await context.started()
        return JsonResponse(await asyncio.to_thread(desk.page, query))

    @routes.post(f"{_PATH}/replays")
    async def replay(request: Request) -> Response:
        """Replay dead letters, edited or as they are; ``dry_run``: show what that would do."""
        wanted, is_dry = read_replay(await json_body(request))
        part, asker = served(replays), who(request)
        await context.started()
        if is_dry:
            return JsonResponse(await asyncio.to_thread(part.dry_run, wanted))
        return JsonResponse(await asyncio.to_thread(part.start_replay, wanted, asker), 201)

    @routes.get(f"{_PATH}/replays")
    async def all_replays() -> Response:
        """Return every replay that is remembered, newest first."""
        part = served(replays)
        return JsonResponse(ReplayList(await asyncio.to_thread(part.replays)))

    @routes.get(_ONE)
    async def one_replay(replay: str) -> Response:
        """Return one replay, and how far it is."""
        part, name = served(replays), decoded(replay)
        return JsonResponse(await asyncio.to_thread(part.replay, name))

    @routes.post(f"{_ONE}/stop")
    async def stop(request: Request, replay: str) -> Response:
        """Stop a replay; delivered letters stay delivered, and it can be resumed."""
        json_object(await json_body(request), ())
        part, name = served(replays), decoded(replay)
        return JsonResponse(await asyncio.to_thread(part.stop_replay, name))

    @routes.post(f"{_ONE}/resume")
    async def resume(request: Request, replay: str) -> Response:
        """Resume a replay that was stopped or failed."""
        json_object(await json_body(request), ())
        part, name = served(replays), decoded(replay)
        return JsonResponse(await asyncio.to_thread(part.resume_replay, name))

    @routes.post(f"{_PATH}/delete")
    async def delete(request: Request) -> Response:
        """Delete the letters of a queue before the first that was not replayed."""
        body = json_object(await json_body(request), ("connector", "topic"))
        connector, topic = text_field(body, "connector"), text_field(body, "topic")
        part = served(replays)
        await context.started()
        return JsonResponse(await asyncio.to_thread(part.delete, connector, topic))


def served(part: T | None) -> T:
    """Raise NotFoundError where this worker has no such part."""
    if part is None:
        raise NotFoundError("this worker does not serve dead letters")
    return part


def read_query(given: Mapping[str, str]) -> LetterQuery:
    """Return what the parameters of a request ask for. Raises BadRequestError."""
    known = ("connector", "topic", "after", "limit", *FILTERS)
    if unknown := sorted(set(given) - set(known)):
        raise BadRequestError(f"unknown parameters: {', '.join(unknown)}. Use {', '.join(known)}")
    limit = given.get("limit")
    return LetterQuery(
        given.get("connector") or None,
        given.get("topic") or None,
        {name: given[name] for name in FILTERS if name in given},
        given.get("after") or None,
        whole_number(limit, "limit", 1, LETTERS_MAX) if limit else LETTERS_DEFAULT,
    )


def read_replay(data: bytes) -> tuple[WantedReplay, bool]:
    """Return what a body asks for, and whether it is a dry run. Raises BadRequestError."""
    known = ("connector", "topic", "target", "filter", "letters", "edit", "rate", "again", "dry_run")
    body = json_object(data, known)
    wanted = WantedReplay(
        connector=text_field(body, "connector"),
        topic=text_field(body, "topic"),
        target=text_field(body, "target") or TOPIC,
        filter=object_field(body, "filter"),
        letters=_places(body.get("letters")),
        edit=object_field(body, "edit"),
        rate=_rate(body.get("rate")),
        again=switch_field(body, "again", or_null=True),
    )
    return wanted, switch_field(body, "dry_run", or_null=True)


def _rate(value: Any) -> float | None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or value > 1e9):
        raise BadRequestError("rate: must be a number of letters per second")
    return None if value is None else float(value)


def _places(value: Any) -> tuple[tuple[int, int], ...] | None:
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(place, dict) for place in value):
        raise BadRequestError('letters: must be a list of {"partition": 0, "offset": 1}')
    return tuple(
        (
            whole_number(place.get("partition"), "partition", 0, 2**31 - 1),
            whole_number(place.get("offset"), "offset", 0, NUMBER_MAX),
        )
        for place in value
    )
