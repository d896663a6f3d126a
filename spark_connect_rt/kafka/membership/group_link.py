"""Connections to the group's coordinator: find it, keep one for quick requests, open one for those that wait.

Owns sockets through ``aiokafka.conn`` (TLS and SASL are the library's). A broker answers the requests of one
connection in order, so a JoinGroup that waits for the slowest member would hold up every heartbeat behind it:
JoinGroup and SyncGroup get a connection of their own, which lives as long as the rebalance.
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
from spark_connect_rt.kafka.aiokafka_parts import AIOKafkaConnection, MetadataRequest
from spark_connect_rt.kafka.connection_problem import refusal_of_error
from spark_connect_rt.kafka.group_connection import connect
from spark_connect_rt.kafka.membership.group_requests import NONE, find_request, lost_reason, refusal_of
from spark_connect_rt.kafka.refusal import Refusal

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
        """Close the connection of waiting requests: the rebalance is over, or no one wants the answer."""
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

    Java asks the least loaded node: the one with the fewest requests under way, at random among equals. A member has
    none under way when it searches, so all are equal here and the order is random. Unlike Java it does not wait for
    a host that is gone: the next broker is asked after STAGGER_S, beside it, and the first good answer wins.
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
    """Return what makes the failure final, if anything. Raises what is no failure to connect."""
    if isinstance(error, CoordinatorRefusesError):
        return error.refusal
    if isinstance(error, (*NETWORK_ERRORS, CoordinatorUnknownError)):
        return refusal_of_error(error)
    raise error


def _describe(error: BaseException) -> str:
    return str(error) or type(error).__name__
