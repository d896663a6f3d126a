"""``/admin/history`` and the offset history: changes, their users, and the way back (ours)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from spark_connect_rt.errors import BadRequestError, NotFoundError, UnsafeChangeError
from spark_connect_rt.operations.history.rollback_routes import (
    InnerRequests,
    OffsetRestore,
    back_to,
    diff_between,
    roll_back,
    undo_of,
)
from spark_connect_rt.operations.history.shapes import (
    ConfigDiff,
    OffsetsMoved,
    RolledBack,
    WantedRollback,
    WantedTime,
    WantedUndo,
)
from spark_connect_rt.rest.change_history import KINDS, Change, ChangePage, ChangeQuery, Course, History
from spark_connect_rt.rest.json_bodies import json_object, object_field, switch_field, whole_number
from spark_connect_rt.rest.paths import ConnectorName, decoded, json_body
from spark_connect_rt.rest.requests import JsonResponse, RestContext
from spark_connect_rt.rest.shapes import INITIAL_STATES, Operation, QueryParameter

LIMIT_DEFAULT, LIMIT_MAX = 100, 2_000
NUMBER_MAX = 10**18
_LIST = "/admin/history"
_ONE = "/admin/history/{connector}/{number}"
_DIFF = "/admin/history/{connector}/diff"
_COURSE = "/admin/connectors/{connector}/offsets/course"
_GOTO = "/admin/connectors/{connector}/offsets/goto"
_INTEGER, _TEXT = {"type": "integer", "minimum": 0}, {"type": "string"}
_UNKNOWN = {404: "The change does not exist, or this worker keeps no history."}
_BAD = {400: "A parameter or the body is invalid."}
_UNSAFE = {409: "The change is not safe. The message says why. Nothing was changed."}
OPERATIONS: Mapping[tuple[str, str], Operation] = {
    ("GET", _LIST): Operation(
        "listChanges",
        {200: ChangePage},
        {**_BAD, 404: "This worker keeps no history."},
        parameters=(
            QueryParameter("connector", "Changes of this connector. Empty: of loggers.", _TEXT),
            QueryParameter("kind", f"Kinds, separated by commas: {', '.join(KINDS)}.", _TEXT),
            QueryParameter("before", "Only changes with a lower number.", _INTEGER),
            QueryParameter("limit", "Most changes.", {**_INTEGER, "maximum": LIMIT_MAX, "default": LIMIT_DEFAULT}),
        ),
    ),
    ("GET", _ONE): Operation("getChange", {200: Change}, _UNKNOWN),
    ("GET", _DIFF): Operation(
        "diffConfigs",
        {200: ConfigDiff},
        {**_BAD, **_UNKNOWN},
        parameters=(
            QueryParameter("from", "Number of the change whose resulting configuration is compared.", _INTEGER),
            QueryParameter("to", "Number of the change to compare with.", _INTEGER),
        ),
    ),
    ("POST", f"{_ONE}/rollback"): Operation(
        "rollBackConfig", {200: RolledBack}, {**_BAD, **_UNKNOWN, **_UNSAFE}, WantedRollback
    ),
    ("POST", f"{_ONE}/undo"): Operation(
        "undoOffsets", {200: OffsetsMoved}, {**_BAD, **_UNKNOWN, **_UNSAFE}, WantedUndo
    ),
    ("GET", _COURSE): Operation(
        "getOffsetsCourse",
        {200: Course},
        {**_BAD, 404: "This worker keeps no history."},
        parameters=(
            QueryParameter("from_ms", "Points from this time on, and the last one before it.", _INTEGER),
            QueryParameter("to_ms", "Points up to this time.", _INTEGER),
        ),
    ),
    ("POST", _GOTO): Operation(
        "goToTime",
        {200: OffsetsMoved},
        {**_BAD, 404: "The connector does not exist, or this worker keeps no history.", **_UNSAFE},
        WantedTime,
    ),
}


def add_routes(routes: APIRouter, context: RestContext, history: History | None) -> None:
    """Add the routes; ``history`` None: this worker keeps none."""
    _add_reads(routes, context, history)
    _add_writes(routes, context, history)


def _add_reads(routes: APIRouter, context: RestContext, history: History | None) -> None:
    @routes.get(_LIST)
    async def changes(request: Request) -> Response:
        """Return changes of configurations, target states, offsets and logger levels, the newest first."""
        part, query = _served(history), read_query(request.query_params)
        return JsonResponse(await asyncio.to_thread(part.changes, query))

    @routes.get(_DIFF)
    async def diff(request: Request, connector: ConnectorName) -> Response:
        """Return what differs between the configurations after two changes."""
        part, name, given = _served(history), decoded(connector), request.query_params
        first, second = (whole_number(given.get(word), word) for word in ("from", "to"))
        if first is None or second is None:
            raise BadRequestError("from and to are required: the numbers of two changes")
        return JsonResponse(ConfigDiff(await asyncio.to_thread(diff_between, part, name, first, second)))

    @routes.get(_ONE)
    async def change(connector: ConnectorName, number: int) -> Response:
        """Return one change of a connector by its number."""
        part, name = _served(history), decoded(connector)
        return JsonResponse(await asyncio.to_thread(part.change, name, number))

    @routes.get(_COURSE)
    async def course(request: Request, connector: ConnectorName) -> Response:
        """Return where a connector was."""
        part, name, given = _served(history), decoded(connector), request.query_params
        from_ms = whole_number(given.get("from_ms"), "from_ms") or 0
        to_ms = whole_number(given.get("to_ms"), "to_ms")
        to_ms = NUMBER_MAX if to_ms is None else to_ms
        if to_ms < from_ms:
            raise BadRequestError("to_ms: must not be before from_ms")
        return JsonResponse(await asyncio.to_thread(part.course, name, from_ms, to_ms))


def _add_writes(routes: APIRouter, context: RestContext, history: History | None) -> None:
    @routes.post(f"{_ONE}/rollback")
    async def rollback(request: Request, connector: ConnectorName, number: int) -> Response:
        """Configure the connector as it was after a change."""
        part, wanted = _served(history), read_rollback(await json_body(request))
        await context.started()
        return JsonResponse(await roll_back(context, part, request, decoded(connector), number, wanted))

    @routes.post(f"{_ONE}/undo")
    async def undo(request: Request, connector: ConnectorName, number: int) -> Response:
        """Set offsets back to what they were before a change of them."""
        part, name = _served(history), decoded(connector)
        body = json_object(await json_body(request), ("dry_run", "force"))
        dry_run, force = switch_field(body, "dry_run"), switch_field(body, "force")
        await context.started()
        found = await asyncio.to_thread(part.change, name, number)
        decide = undo_of(found, force=force)
        inner = InnerRequests(context, request, f"undo of change {number}")
        restore = OffsetRestore(context, part, inner, name)
        return JsonResponse(await restore.carried_out(decide, dry_run=dry_run))

    @routes.post(_GOTO)
    async def goto(request: Request, connector: ConnectorName) -> Response:
        """Set offsets to where the connector was at a time."""
        part, name = _served(history), decoded(connector)
        body = json_object(await json_body(request), ("time_ms", "dry_run"))
        time_ms, dry_run = body.get("time_ms"), switch_field(body, "dry_run")
        if not isinstance(time_ms, int) or isinstance(time_ms, bool) or not 0 <= time_ms < NUMBER_MAX:
            raise BadRequestError("time_ms: must be a time in ms since 1970")
        await context.started()
        point = await asyncio.to_thread(part.offsets_at, name, time_ms)
        if point is None:
            known = await asyncio.to_thread(part.course, name, 0, NUMBER_MAX)
            raise UnsafeChangeError(too_early(name, time_ms, known.points[0].at_ms if known.points else None))
        inner = InnerRequests(context, request, f"back to where it was at {_utc(point[0])}")
        moved = await OffsetRestore(context, part, inner, name).carried_out(back_to(point[1]), dry_run=dry_run)
        return JsonResponse(OffsetsMoved(moved.offsets, moved.applied, moved.problems, point[0]))


def too_early(connector: str, time_ms: int, first_ms: int | None) -> str:
    """Return why offsets cannot go back to a time; ``first_ms``: of the first known point, None: there is no point.

    Times are UTC, in the form that a command line and this API's users can copy.
    """
    if first_ms is None:
        return f"connector {connector} has no offset history yet"
    # Rounded up: at a part of a second less there is no point.
    earliest = _utc(-(-first_ms // 1000) * 1000)
    return (
        f"connector {connector} has no offset history as far back as {_utc(time_ms)}. The earliest time is {earliest}"
    )


def _utc(at_ms: int) -> str:
    try:
        return datetime.fromtimestamp(at_ms // 1000, UTC).isoformat().replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):  # a time that no calendar has
        return f"{at_ms} ms"


def read_query(given: Mapping[str, str]) -> ChangeQuery:
    """Return which changes a request asks for. Raises BadRequestError."""
    kinds = tuple(filter(None, given.get("kind", "").split(",")))
    if unknown := sorted(set(kinds) - set(KINDS)):
        raise BadRequestError(f"kind: unknown kind {', '.join(unknown)}. Use {', '.join(KINDS)}")
    limit = whole_number(given.get("limit"), "limit")
    if limit is not None and not 1 <= limit <= LIMIT_MAX:
        raise BadRequestError(f"limit: must be between 1 and {LIMIT_MAX}")
    return ChangeQuery(
        given.get("connector"), kinds, whole_number(given.get("before"), "before"), limit or LIMIT_DEFAULT
    )


def read_rollback(data: bytes) -> WantedRollback:
    """Return what the body of a rollback asks for. Raises BadRequestError."""
    body = json_object(data, ("dry_run", "secrets", "initial_state"))
    secrets, state = object_field(body, "secrets"), body.get("initial_state")
    if not all(isinstance(value, str) for value in secrets.values()):
        raise BadRequestError("secrets: must be an object of strings")
    if state is not None and (not isinstance(state, str) or state.upper() not in INITIAL_STATES):
        raise BadRequestError(f"initial_state: must be one of {', '.join(INITIAL_STATES)}")
    return WantedRollback(switch_field(body, "dry_run"), secrets, None if state is None else state.upper())


def _served(history: History | None) -> History:
    if history is None:
        raise NotFoundError("this worker keeps no history: connectrt.history.changes.max is 0")
    return history
