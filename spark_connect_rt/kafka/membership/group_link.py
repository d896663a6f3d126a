"""Connections to the group's coordinator: find it, keep one for quick requests, open one for those that wait.

Owns sockets through ``aiokafka.conn`` (TLS and SASL are the library's). A broker answers the requests of one
connection in order, so a JoinGroup that waits for the slowest member would hold up every heartbeat behind it:
JoinGroup and SyncGroup get their own connection, which lives as long as the rebalance.
All coroutines belong to the one I/O loop.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from aiokafka.errors import KafkaError

from spark_connect_rt.config.bootstrap_servers import bootstrap_addresses
from spark_connect_rt.group.membership import (
    CoordinatorLost,
    GenerationLost,
    HeartbeatOk,
    JoinedAsFollower,
    JoinedAsLeader,
    Member,
    MemberIdGiven,
    MemberUnknown,
    RebalanceSignalled,
    RequestRefused,
    RoundAborted,
    SyncAnswered,
    Timing,
)
from spark_connect_rt.kafka.aiokafka_parts import (
    AIOKafkaConnection,
    FindCoordinatorRequest,
    HeartbeatRequest,
    MetadataRequest,
    SyncGroupRequest,
)
from spark_connect_rt.kafka.connection_problem import Refusal, refusal_of_error
from spark_connect_rt.kafka.group_security import connect
from spark_connect_rt.kafka.membership.group_wire import JoinRequest, LeaveRequest

# Group requests on aiokafka's protocol classes, and their answers as events of the membership machine.
#
# Owns the wire's error codes (Java ``Errors``) for JoinGroup, SyncGroup, Heartbeat, LeaveGroup, FindCoordinator.
# Versions used against a 4.x broker: Join 9 and Leave 5 (``group_wire``), Sync 3, Heartbeat 1, FindCoordinator 1; no
# static members.


PROTOCOL_TYPE = "connect"
REASON_LIMIT = 255  # characters; brokers refuse longer ones (Java JoinGroupRequest.maybeTruncateReason)

NONE = 0
ILLEGAL_GENERATION = 22
UNKNOWN_MEMBER_ID = 25
REBALANCE_IN_PROGRESS = 27
MEMBER_ID_REQUIRED = 79

_LOST = {
    14: "the group coordinator is loading the group",
    15: "the group coordinator is not available",
    16: "this broker is no longer the group's coordinator",
}
_REFUSED = {
    23: ("connect.protocol", "no protocol of this worker is supported by every member of the group"),
    24: ("group.id", "the broker rejects this group id as invalid"),
    26: ("session.timeout.ms", "outside group.min.session.timeout.ms .. group.max.session.timeout.ms of the broker"),
    30: ("group.id", "this worker is not authorized to use the group"),
    35: ("bootstrap.servers", "the broker does not support this version of the group protocol"),
    81: ("group.id", "the group has reached the broker's group.max.size"),
    82: ("group.id", "a static member of the same instance id took this place (workers are never static)"),
}


def find_request(group_id: str) -> FindCoordinatorRequest:
    """Ask which broker coordinates the group."""
    return FindCoordinatorRequest(group_id, 0)


def join_request(group_id: str, member: Member, timing: Timing) -> JoinRequest:
    """Join with the member's offer, under the id it has (empty: the broker will give one); say why."""
    return JoinRequest(
        group_id,
        timing.session_ms,
        timing.rebalance_ms,
        member.member_id,
        None,
        PROTOCOL_TYPE,
        protocols=list(member.offer),
        reason=member.reason[:REASON_LIMIT],
    )


def sync_request(group_id: str, member: Member) -> SyncGroupRequest:
    """Hand the leader's plan in, or ask for one's own part of it."""
    return SyncGroupRequest(group_id, member.generation, member.member_id, None, list(member.plan.items()))


def heartbeat_request(group_id: str, member: Member) -> HeartbeatRequest:
    """Say that this member lives."""
    return HeartbeatRequest(group_id, member.generation, member.member_id)


def leave_request(group_id: str, member_id: str, reason: str) -> LeaveRequest:
    """Give the place in the group up; say why."""
    return LeaveRequest(group_id, member_id, reason[:REASON_LIMIT])


def refusal_of(error_code: int) -> Refusal | None:
    """Return what to correct when this error is final, else None."""
    return Refusal(*_REFUSED[error_code]) if error_code in _REFUSED else None


def lost_reason(error_code: int) -> str:
    """Return why the coordinator must be looked for again."""
    return _LOST.get(error_code, f"the group coordinator answered error {error_code}")


def join_answered(answer: Any, member: Member, at_ms: int) -> object:
    """Turn a JoinGroup answer into an event. REBALANCE_IN_PROGRESS here only means: try again."""
    code = answer.error_code
    if code == MEMBER_ID_REQUIRED:
        return MemberIdGiven(answer.member_id)
    if code != NONE:
        return _failed(code, member, at_ms)
    agreed = (answer.generation_id, answer.group_protocol, answer.member_id, answer.leader_id)
    if answer.leader_id == answer.member_id:
        return JoinedAsLeader(*agreed, members=_metadata(answer.members), at_ms=at_ms)
    return JoinedAsFollower(*agreed, at_ms=at_ms)


def sync_answered(answer: Any, member: Member, sent_ms: int) -> object:
    """Turn a SyncGroup answer into an event."""
    if answer.error_code == NONE:
        return SyncAnswered(bytes(answer.member_assignment), sent_ms)
    if answer.error_code == REBALANCE_IN_PROGRESS:
        return RoundAborted()
    return _failed(answer.error_code, member, sent_ms)


def heartbeat_answered(answer: Any, member: Member, sent_ms: int) -> object:
    """Turn a Heartbeat answer into an event."""
    if answer.error_code == NONE:
        return HeartbeatOk(member.generation, sent_ms)
    if answer.error_code == REBALANCE_IN_PROGRESS:
        return RebalanceSignalled(member.generation, sent_ms)
    return _failed(answer.error_code, member, sent_ms)


def _failed(code: int, member: Member, sent_ms: int) -> object:
    if code == UNKNOWN_MEMBER_ID:
        return MemberUnknown(member.generation)
    if code == ILLEGAL_GENERATION:
        return GenerationLost(member.generation, sent_ms)
    refusal = refusal_of(code)
    return (
        CoordinatorLost(lost_reason(code))
        if refusal is None
        else RequestRefused(f"{refusal.setting}: {refusal.reason}")
    )


def _metadata(members: Any) -> Mapping[str, bytes]:
    # From JoinGroup 5 on the static instance id stands between id and metadata.
    return {entry[0]: bytes(entry[1] if len(entry) == 2 else entry[2]) for entry in members}


STAGGER_S = 0.5  # head start of one broker before the next is asked too
NETWORK_ERRORS = (OSError, KafkaError, asyncio.TimeoutError, EOFError)


class CoordinatorRefusesError(Exception):
    """FindCoordinator or SASL got an answer that repeating cannot change."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(f"{refusal.setting}: {refusal.reason}")
        self.refusal = refusal


class CoordinatorUnknownError(Exception):
    """No broker that could be reached knows the coordinator yet; try again."""


@dataclass(frozen=True, slots=True)
class LinkSettings:
    """How to connect. All times ms."""

    group_id: str
    bootstrap_servers: str
    client_id: str
    answer_limit_ms: int  # below the session time-out, so that a hung broker is noticed in time
    rebalance_limit_ms: int  # of JoinGroup and SyncGroup
    setup_limit_ms: int
    security: Mapping[str, Any] = field(default_factory=dict)


class CoordinatorLink:
    """An open way to the coordinator. One use; ``close`` it and find another when anything fails."""

    def __init__(self, settings: LinkSettings, quick: AIOKafkaConnection) -> None:
        self._settings = settings
        self._quick = quick
        self._waiting: AIOKafkaConnection | None = None

    async def ask(self, request: Any) -> Any:
        """Send a request that is answered at once; one of NETWORK_ERRORS when it is not."""
        return await self._quick.send(request)

    async def ask_and_wait(self, request: Any) -> Any:
        """Send a request that is answered when every member did its part."""
        if self._waiting is None or not self._waiting.connected():
            limit_ms = self._settings.rebalance_limit_ms
            self._waiting = await _connect(self._settings, self._quick.host, self._quick.port, limit_ms)
        return await self._waiting.send(request)

    def end_wait(self) -> None:
        """Close the connection of waiting requests: the rebalance is over, or the answer is not wanted any more."""
        if self._waiting is not None:
            self._waiting.close()
            self._waiting = None

    def close(self) -> None:
        """Close both connections: of waiting requests and of quick ones."""
        self.end_wait()
        self._quick.close()

    async def wait_closed(self, limit_s: float) -> None:
        """Close, and give the socket time to go before its loop does."""
        closed = self._quick.close()
        if closed is not None:
            await asyncio.wait([closed], timeout=limit_s)


class CoordinatorSearch:
    """Looks for the coordinator; remembers the brokers it learnt of, so that lost bootstrap servers do not matter.

    Java asks the least loaded node: the one with the fewest requests in flight, at random among equals. A member has
    none in flight when it searches, so all are equal here and the order is random. Unlike Java it does not wait for
    a host that is gone: the next broker is asked too after STAGGER_S, and the first good answer wins.
    """

    def __init__(self, settings: LinkSettings) -> None:
        self._settings = settings
        self._brokers: list[tuple[str, int]] = []

    async def find(self) -> CoordinatorLink:
        """Ask the known brokers until one names the coordinator, and connect to it.

        Raises CoordinatorRefusesError (every broker failed, and one's answer is final), CoordinatorUnknownError
        (message: why, for each broker asked).
        """
        bootstrap = bootstrap_addresses(self._settings.bootstrap_servers)
        waiting = list(dict.fromkeys([*random.sample(bootstrap, len(bootstrap)), *self._brokers]))
        asked: dict[asyncio.Task[CoordinatorLink], str] = {}
        failures: list[str] = []
        refusal: Refusal | None = None
        try:
            while waiting or asked:
                if waiting:
                    host, port = waiting.pop(0)
                    asked[asyncio.create_task(self._ask(host, port))] = f"{host}:{port}"
                limit_s = STAGGER_S if waiting else None
                done, _ = await asyncio.wait(asked, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    error = task.exception()
                    if error is None:
                        link = task.result()
                        del asked[task]
                        return link
                    refusal = refusal or _refusal(error)
                    failures.append(f"{asked.pop(task)}: {_describe(error)}")
        finally:
            await _give_up(asked)
        if refusal is not None:
            raise CoordinatorRefusesError(refusal)
        raise CoordinatorUnknownError("; ".join(failures))

    async def _ask(self, host: str, port: int) -> CoordinatorLink:
        asked = await self._connect(host, port)
        try:
            metadata = await asked.send(MetadataRequest([]))
            self._brokers = [(broker[1], broker[2]) for broker in metadata.brokers]
            answer = await asked.send(find_request(self._settings.group_id))
            if answer.error_code != NONE:
                refusal = refusal_of(answer.error_code)
                if refusal is not None:
                    raise CoordinatorRefusesError(refusal)
                raise CoordinatorUnknownError(lost_reason(answer.error_code))
            if (answer.host, answer.port) == (host, port):
                link = CoordinatorLink(self._settings, asked)
                asked = None
                return link
            return CoordinatorLink(self._settings, await self._connect(answer.host, answer.port))
        finally:
            if asked is not None:
                asked.close()

    async def _connect(self, host: str, port: int) -> AIOKafkaConnection:
        return await _connect(self._settings, host, port, self._settings.answer_limit_ms)


async def _connect(settings: LinkSettings, host: str, port: int, answer_limit_ms: int) -> AIOKafkaConnection:
    connecting = connect(
        host,
        port,
        client_id=settings.client_id,
        request_timeout_ms=answer_limit_ms,
        **settings.security,
    )
    return await asyncio.wait_for(connecting, settings.setup_limit_ms / 1000)


async def _give_up(asked: Mapping[asyncio.Task[CoordinatorLink], str]) -> None:
    for task in asked:
        task.cancel()
    for outcome in await asyncio.gather(*asked, return_exceptions=True):
        if isinstance(outcome, CoordinatorLink):  # was found twice
            outcome.close()


def _refusal(error: BaseException) -> Refusal | None:
    """Return what makes the failure final, if anything. Raises an error that is not a failure to connect."""
    if isinstance(error, CoordinatorRefusesError):
        return error.refusal
    if isinstance(error, (*NETWORK_ERRORS, CoordinatorUnknownError)):
        return refusal_of_error(error)
    raise error


def _describe(error: BaseException) -> str:
    return str(error) or type(error).__name__
