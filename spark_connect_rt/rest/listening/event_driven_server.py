"""uvicorn's server with bounded connections, and without its ten checks a second whether it has to end."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from functools import partial
from typing import Any

import uvicorn

from spark_connect_rt.rest.listening.accept_errors import AcceptErrors, ReservedDescriptors
from spark_connect_rt.rest.listening.bounded_http import BoundedHttp
from spark_connect_rt.rest.listening.connections import REQUEST_LIMIT_S, Connections

TICK_S = 1.0  # uvicorn's tick also renews the Date header
ACCEPTED_AT_ONCE = 64  # in one round of the loop: what was accepted before is served between two rounds
BACKLOG = 1_024  # connections that the system keeps until they are accepted


class CalmServer(uvicorn.Server):
    """``end`` is noticed at once, by whichever thread it is called."""

    def __init__(self, config: uvicorn.Config, most: int) -> None:
        """``most``: how many connections may be open at once."""
        super().__init__(config)
        self.connections = Connections(most)
        self._reserved = ReservedDescriptors()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wakes = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept on the sockets. Raises RuntimeError: the application refused to start."""
        await self.lifespan.startup()
        if self.lifespan.should_exit:
            raise RuntimeError("the application did not start")
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(AcceptErrors(self._reserved, self.connections.lower, loop.time))
        self._reserved.hold()
        tls: dict[str, Any] = {"ssl_handshake_timeout": REQUEST_LIMIT_S} if self.config.ssl else {}
        self.servers = []
        for sock in sockets or []:
            made = partial(
                BoundedHttp, self.connections, self.config, self.server_state, app_state=self.lifespan.state, _loop=loop
            )
            server = await loop.create_server(made, sock=sock, ssl=self.config.ssl, backlog=ACCEPTED_AT_ONCE, **tls)
            sock.listen(BACKLOG)  # asyncio takes its backlog for both
            self.servers.append(server)
        self.started = True

    async def main_loop(self) -> None:
        """See uvicorn: returns when the server is to end."""
        self._loop = asyncio.get_running_loop()
        while not await self.on_tick(0):
            self.connections.close_late(self._loop.time())
            self._reserved.hold()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wakes.wait(), TICK_S)
        self._reserved.release()

    def end(self) -> None:
        """Have the server end."""
        self.should_exit = True
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
                self._loop.call_soon_threadsafe(self._wakes.set)
