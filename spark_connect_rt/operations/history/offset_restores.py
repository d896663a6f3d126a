"""Offsets set back: what a change of them did is undone, or the connector goes back to where it was at a time (ours).

The connector is stopped, what was decided is checked against where it stands then, the offsets are written, and it is
wanted again as it was before: also when something is refused or fails on the way, or this worker dies.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from spark_connect_rt.errors import ConnectError, NotFoundError, UnsafeChangeError
from spark_connect_rt.kafka.ports_group_offsets import GroupInUseError
from spark_connect_rt.operations.history.inner_requests import InnerRequests
from spark_connect_rt.operations.history.shapes import MovedOffset, OffsetsMoved
from spark_connect_rt.rest.change_history import OFFSETS, Change, History
from spark_connect_rt.rest.context import RestContext
from spark_connect_rt.runtime.herder.requests_api import (
    CatchUp,
    ModifyOffsets,
    NoteRestore,
    ReadOffsets,
    SetTargetState,
)
from spark_connect_rt.topics.offset_changes import OffsetPair
from spark_connect_rt.topics.offset_moves import OffsetMove, offset_moves, pairs_of, undo_moves
from spark_connect_rt.topics.target_state import TargetState

STOP_LIMIT_S = 60.0
ASK_AGAIN_S = 0.1
MOST_NAMED = 5  # partitions in a refusal
_PATHS = {TargetState.STARTED: "/resume", TargetState.PAUSED: "/pause", TargetState.STOPPED: "/stop"}

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Decided:
    """What is written for offsets as they are, and why it should not be."""

    moves: Sequence[OffsetMove]
    refusal: str = ""


Decide = Callable[[Sequence[OffsetPair]], Decided]


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

    def decide(now: Sequence[OffsetPair]) -> Decided:
        moves, moved = undo_moves(now, before, after)
        if moved and moves and not force:
            named = "; ".join(
                f"{move.partition} was at {move.from_} after the change and is at {move.to} now"
                for move in moved[:MOST_NAMED]
            )
            more = f" and {len(moved) - MOST_NAMED} more" if len(moved) > MOST_NAMED else ""
            text = f"the connector has moved since change {change.number}: {named}{more}"
            return Decided(moves, f"{text}. Set 'force' to undo it anyway.")
        return Decided(moves)

    return decide


def back_to(then: Sequence[OffsetPair]) -> Decide:
    """Return what decides on a way back to offsets of another time."""
    return lambda now: Decided(offset_moves(now, then))


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

    async def _refusals(self, decided: Decided) -> list[str]:
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
