"""Back to an old configuration: its own one, as it was after a change (ours).

The secrets of then are not known: where a setting is hidden its present value stays, unless the request brings one, and
the rollback is refused where there is neither.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from starlette.requests import Request

from spark_connect_rt.base.json_text import encode_json
from spark_connect_rt.errors import ConnectError, NotFoundError, UnsafeChangeError
from spark_connect_rt.kafka.interfaces import GroupInUseError
from spark_connect_rt.operations.history.shapes import MovedOffset, OffsetsMoved, RolledBack, WantedRollback
from spark_connect_rt.rest.change_history import CONFIG, OFFSETS, Change, ChangeQuery, History
from spark_connect_rt.rest.client_identity import NOTE_HEADER, note_of
from spark_connect_rt.rest.config_versions import etag
from spark_connect_rt.rest.paths import connector_path
from spark_connect_rt.rest.requests import Forwarded, RestContext
from spark_connect_rt.rest.shapes import INITIAL_STATES
from spark_connect_rt.runtime.herder.herder_requests import (
    CatchUp,
    CreateConnector,
    ModifyOffsets,
    NoteRestore,
    PutConfig,
    ReadOffsets,
    SetTargetState,
    ValidateConfig,
)
from spark_connect_rt.runtime.herder.herder_requests import Request as HerderRequest
from spark_connect_rt.topics.config_diff import Rollback, SettingChange, config_diff, rolled_back
from spark_connect_rt.topics.config_records import TargetState
from spark_connect_rt.topics.offset_changes import OffsetMove, OffsetPair, offset_moves, pairs_of, undo_moves

# Requests that a resource of the management API makes of Connect's own API on behalf of its client.
#
# They are served here or forwarded as the client's own would be (to a Java leader, too), with its Authorization, and
# the history names the client and why.


T = TypeVar("T")
_OWN_HEADERS = (b"content-type", b"content-length", b"if-match", NOTE_HEADER.lower().encode())


class InnerRequests:
    """For one request of a client."""

    def __init__(self, context: RestContext, request: Request, note: str) -> None:
        self._context = context
        self._request = request
        self._note = "; ".join(filter(None, (note, note_of(request))))

    async def done(
        self,
        wanted: HerderRequest[T],
        method: str,
        connector: str,
        path: str = "",
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> T | None:
        """Have a request served by whichever worker must; return its answer, None when that is another worker.

        ``path`` is below the connector; an empty ``connector``: that of all of them. Raises as the request would.
        """
        path = f"{connector_path(connector)}{path}" if connector else f"/connectors{path}"
        data = b"" if body is None else encode_json(body)
        try:
            return await self._context.completed(self._made(method, path, data, headers or {}), wanted)
        except Forwarded:
            return None

    def _made(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> Request:
        given = [(name, value) for name, value in self._request.scope["headers"] if name not in _OWN_HEADERS]
        own = {"content-type": "application/json", NOTE_HEADER.lower(): self._note, **headers}
        scope = {
            **self._request.scope,
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "headers": [
                *given,
                *((name.lower().encode(), value.encode("latin-1", "replace")) for name, value in own.items()),
            ],
        }

        async def receive() -> MutableMapping[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        return Request(scope, receive)


SEEN = 2_000  # changes of one connector that are scanned


def config_after(history: History, connector: str, number: int) -> Change:
    """Return the change that the configuration after ``number`` comes from. Blocks. Raises NotFoundError.

    After a change of something else it is that of the change of the configuration before it.
    """
    change = history.change(connector, number)
    if change.kind == CONFIG:
        return change
    page = history.changes(ChangeQuery(connector, (CONFIG,), number, 1))
    if not page.changes:
        raise NotFoundError(
            f"change {number} of {connector}: the history does not hold the configuration at that change"
        )
    return page.changes[0]


def diff_between(history: History, connector: str, first: int, second: int) -> list[SettingChange]:
    """Return what differs between the configurations after two changes. Blocks. Raises NotFoundError."""
    before, after = config_after(history, connector, first), config_after(history, connector, second)
    low, high = sorted((before.number, after.number))
    between = history.changes(ChangeQuery(connector, (CONFIG,), high + 1, SEEN)).changes
    unseen = {setting for change in between if change.number > low for setting in change.changed_unseen}
    return config_diff(before.after, after.after, unseen)


async def roll_back(
    context: RestContext, history: History, request: Request, connector: str, number: int, wanted: WantedRollback
) -> RolledBack:
    """Write the configuration as it was after a change. Raises NotFoundError, UnsafeChangeError, as PUT would."""
    loop = asyncio.get_running_loop()
    change = await loop.run_in_executor(None, lambda: config_after(history, connector, number))
    if change.after is None:
        raise UnsafeChangeError(
            f"change {number} deleted connector {connector}, so there is no configuration to roll back to"
        )
    await asyncio.wrap_future(context.herder.submit(CatchUp()))
    views = context.herder.views
    version = views.config_version(connector)
    try:
        present = views.connector_config(connector).written()
    except NotFoundError:
        present = None
    new = rolled_back(change.after, present, wanted.secrets)
    if new.missing:
        raise UnsafeChangeError(
            f"connector {connector} is not rolled back: the history hides {', '.join(new.missing)}, and the "
            "current configuration has no value. Send one in 'secrets'."
        )
    diff = await loop.run_in_executor(None, lambda: _diff(history, present, new, change))
    if wanted.dry_run:
        return RolledBack(diff, False, new.kept, await _problems(context, new))
    if not diff and present is not None:
        return RolledBack((), False, new.kept)
    inner = InnerRequests(context, request, f"rollback to change {number}")
    if present is None:
        state = wanted.initial_state or change.state or "RUNNING"
        config = dict(new.config)
        body = {"name": connector, "config": config, "initial_state": state}
        await inner.done(CreateConnector(connector, config, INITIAL_STATES[state]), "POST", "", body=body)
    else:
        put = PutConfig(connector, new.config, version)
        await inner.done(
            put, "PUT", connector, "/config", dict(new.config), {"if-match": etag(version).get("ETag", "*")}
        )
    return RolledBack(diff, True, new.kept)


def _diff(history: History, present: object, new: Rollback, change: Change) -> list[SettingChange]:
    now = history.shown(present) if isinstance(present, dict) else None
    wanted = dict(change.after or {})
    given = {name for name, value in wanted.items() if name not in new.kept and new.config[name] != value}
    return config_diff(now, wanted, given)


async def _problems(context: RestContext, new: Rollback) -> dict[str, list[str]]:
    """Return what validation says of the configuration."""
    found = await asyncio.wrap_future(context.herder.submit(ValidateConfig(new.config)))
    return {
        config.value.name: list(config.value.errors) for config in found.configs if config.value and config.value.errors
    }


# Offsets set back: the effect of a change is undone, or the connector goes back to its offsets at a time (ours).
#
# The connector is stopped, the decision is checked against its present offsets, and the new offsets are written. Then
# it returns to its previous state: also when something is refused or fails on the way, or this worker dies.


STOP_LIMIT_S = 60.0
ASK_AGAIN_S = 0.1
MOST_NAMED = 5  # partitions in a refusal
_PATHS = {TargetState.STARTED: "/resume", TargetState.PAUSED: "/pause", TargetState.STOPPED: "/stop"}

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PlannedMoves:
    """The offsets to write, relative to the present ones, and why they should not be written."""

    moves: Sequence[OffsetMove]
    refusal: str = ""


Decide = Callable[[Sequence[OffsetPair]], PlannedMoves]


def undo_of(change: Change, *, force: bool) -> Decide:
    """Return what decides on an undo of a change of offsets. Raises UnsafeChangeError."""
    if change.kind != OFFSETS:
        raise UnsafeChangeError(
            f"change {change.number} changed the {change.kind}, not offsets. Use rollback instead of undo"
        )
    if change.before is None or change.after is None:
        raise UnsafeChangeError(
            f"change {change.number} cannot be undone: the history does not hold the offsets before and after it"
        )
    before, after = _pairs(change.before), _pairs(change.after)

    def decide(now: Sequence[OffsetPair]) -> PlannedMoves:
        moves, moved = undo_moves(now, before, after)
        if moved and moves and not force:
            named = "; ".join(
                f"{move.partition} was at {move.from_} after the change and is at {move.to} now"
                for move in moved[:MOST_NAMED]
            )
            more = f" and {len(moved) - MOST_NAMED} more" if len(moved) > MOST_NAMED else ""
            text = f"the connector has moved since change {change.number}: {named}{more}"
            return PlannedMoves(moves, f"{text}. Set 'force' to undo it anyway.")
        return PlannedMoves(moves)

    return decide


def back_to(then: Sequence[OffsetPair]) -> Decide:
    """Return what decides on a way back to offsets of another time."""
    return lambda now: PlannedMoves(offset_moves(now, then))


class OffsetRestore:
    """One restore of one connector's offsets."""

    def __init__(self, context: RestContext, history: History, inner: InnerRequests, connector: str) -> None:
        self._context = context
        self._history = history
        self._inner = inner
        self._connector = connector

    async def carried_out(self, decide: Decide, *, dry_run: bool) -> OffsetsMoved:
        """Write what ``decide`` says. Raises NotFoundError, UnsafeChangeError, as Connect's own requests would."""
        await asyncio.wrap_future(self._context.herder.submit(CatchUp()))
        target = self._context.herder.views.target_state(self._connector)
        if target is None:
            raise NotFoundError(f"Connector {self._connector} not found")
        decided = decide(await self._offsets())
        refusals = await self._refusals(decided)
        if dry_run:
            return OffsetsMoved(_shown(decided.moves), False, refusals)
        if refusals:
            raise UnsafeChangeError(
                f"The offsets of connector {self._connector} were not changed: {'; '.join(refusals)}"
            )
        if not decided.moves:
            return OffsetsMoved((), False)
        try:
            moves = await self._write(decide, target)
        finally:
            if target is not TargetState.STOPPED:
                await self._want(target)
        return OffsetsMoved(_shown(moves), bool(moves))

    async def _write(self, decide: Decide, target: TargetState) -> Sequence[OffsetMove]:
        if target is not TargetState.STOPPED:
            await self._context.answered(NoteRestore(self._connector, target))
            await self._want(TargetState.STOPPED)
        end_s = time.monotonic() + STOP_LIMIT_S
        await self._stopped(end_s)
        decided = decide(await self._offsets())
        if refusals := await self._refusals(decided):
            raise UnsafeChangeError(
                f"The offsets of connector {self._connector} were not changed: {'; '.join(refusals)}"
            )
        pairs = pairs_of(decided.moves)
        body = {"offsets": [{"partition": partition, "offset": offset} for partition, offset in pairs]}
        while pairs:
            try:
                await self._inner.done(
                    ModifyOffsets(self._connector, pairs), "PATCH", self._connector, "/offsets", body
                )
                break
            except ConnectError as error:
                if error.code != GroupInUseError.code or time.monotonic() > end_s:
                    raise
                await asyncio.sleep(ASK_AGAIN_S)  # a sink's tasks are leaving their group
        return decided.moves

    async def _stopped(self, end_s: float) -> None:
        """Wait until no task runs any more. Raises UnsafeChangeError."""
        views = self._context.herder.views
        while True:
            status = views.connector_status(self._connector)
            running = [task.id for task in status.tasks if task.state in ("RUNNING", "PAUSED", "RESTARTING")]
            if status.connector.state == "STOPPED" and not running:
                return
            if time.monotonic() > end_s:
                raise UnsafeChangeError(
                    f"connector {self._connector} did not stop within {STOP_LIMIT_S:.0f} s: it is "
                    f"{status.connector.state}, and tasks {running} still run"
                )
            await asyncio.sleep(ASK_AGAIN_S)

    async def _want(self, target: TargetState) -> None:
        await self._inner.done(SetTargetState(self._connector, target), "PUT", self._connector, _PATHS[target])

    async def _offsets(self) -> list[OffsetPair]:
        found = await asyncio.wrap_future(self._context.herder.submit(ReadOffsets(self._connector)))
        return [(offset.partition, offset.offset) for offset in found]

    async def _refusals(self, decided: PlannedMoves) -> list[str]:
        pairs = pairs_of(decided.moves)
        check = self._history.range_problems
        loop = asyncio.get_running_loop()
        beyond = await loop.run_in_executor(None, lambda: check(self._connector, pairs)) if pairs else ()
        return [*filter(None, (decided.refusal,)), *beyond]


def _pairs(value: object) -> list[OffsetPair]:
    listed = value.get("offsets", []) if isinstance(value, dict) else []
    return [(entry.get("partition"), entry.get("offset")) for entry in listed]


def _shown(moves: Sequence[OffsetMove]) -> list[MovedOffset]:
    return [MovedOffset(move.partition, move.from_, move.to) for move in moves]
