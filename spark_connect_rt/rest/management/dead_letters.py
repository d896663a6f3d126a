"""``/admin/dead-letters``: pages of a connector's dead letters (ours)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TypeVar

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from spark_connect_rt.errors import BadRequestError, NotFoundError
from spark_connect_rt.planning.letters.letter import FILTERS, whole_number
from spark_connect_rt.ports.management.dead_letters import DeadLetterDesk, LetterPage, LetterQuery
from spark_connect_rt.rest.context import JsonResponse, RestContext
from spark_connect_rt.rest.operation import Operation, QueryParameter

LIMIT_DEFAULT, LIMIT_MAX = 100, 2_000
_PATH = "/admin/dead-letters"
_TEXT, _NUMBER = {"type": "string"}, {"type": "integer", "minimum": 0}
_REFUSALS = {
    400: "Neither connector nor topic is given, or a filter or the cursor is none.",
    403: "The topic is one of the workers or the brokers.",
    404: "There is no such connector, or this worker does not serve dead letters.",
}
_FILTER_PARAMETERS = (
    QueryParameter("connector", "Letters of the dead letter queue that it names.", _TEXT),
    QueryParameter("topic", "Letters of this topic; with a connector: those that it wrote there.", _TEXT),
    QueryParameter("partition", "Of the queue.", _NUMBER),
    QueryParameter("stage", "Such as VALUE_CONVERTER.", _TEXT),
    QueryParameter("class", "Class at work or of the exception, whole or its last part.", _TEXT),
    QueryParameter("message", "Text within the exception's message, in any case.", _TEXT),
    QueryParameter("origin", "Topic, or topic-partition, that the record came from.", _TEXT),
    QueryParameter("from_ms", "Time of the record, at least.", _NUMBER),
    QueryParameter("to_ms", "Time of the record, less than.", _NUMBER),
    QueryParameter("replayed", "Only letters that were replayed, or were not.", {"type": "boolean"}),
)
OPERATIONS: Mapping[tuple[str, str], Operation] = {
    ("GET", _PATH): Operation(
        "listDeadLetters",
        {200: LetterPage},
        _REFUSALS,
        parameters=(
            *_FILTER_PARAMETERS,
            QueryParameter("after", "The 'next' of the page before.", _TEXT),
            QueryParameter("limit", "Letters of a page.", {**_NUMBER, "maximum": LIMIT_MAX, "default": LIMIT_DEFAULT}),
        ),
    )
}
T = TypeVar("T")


def add_routes(routes: APIRouter, context: RestContext, letters: DeadLetterDesk | None) -> None:
    """Add the routes; ``letters`` None: this worker serves none."""

    @routes.get(_PATH)
    async def page(request: Request) -> Response:
        """Return dead letters in the order of their times, decoded by their connector's converters."""
        desk = served(letters)
        query = read_query(request.query_params)
        await context.started()
        return JsonResponse(await beside(lambda: desk.page(query)))


def served(part: T | None) -> T:
    """Raise NotFoundError where this worker has no such part."""
    if part is None:
        raise NotFoundError("this worker does not serve dead letters")
    return part


async def beside(work: Callable[[], T]) -> T:
    """Do what blocks on a thread of its own."""
    return await asyncio.get_running_loop().run_in_executor(None, work)


def read_query(given: Mapping[str, str]) -> LetterQuery:
    """Return what the parameters of a request ask for. Raises BadRequestError."""
    known = ("connector", "topic", "after", "limit", *FILTERS)
    if unknown := sorted(set(given) - set(known)):
        raise BadRequestError(f"parameters are {', '.join(known)}; not {', '.join(unknown)}")
    limit = given.get("limit")
    return LetterQuery(
        given.get("connector") or None,
        given.get("topic") or None,
        {name: given[name] for name in FILTERS if name in given},
        given.get("after") or None,
        whole_number(limit, "limit", 1, LIMIT_MAX) if limit else LIMIT_DEFAULT,
    )
