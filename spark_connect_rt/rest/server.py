"""Serves the application from one thread with uvicorn; the port is bound before ``start`` returns."""

from __future__ import annotations

import logging
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from spark_connect_rt.base.supervision import Report, SupervisedPart, report_nowhere, watched
from spark_connect_rt.config.worker_config import Listener
from spark_connect_rt.errors import EXIT_LISTENER_TAKEN, EXIT_PART_FAILED, StartupError
from spark_connect_rt.rest.listening.connections import CONNECTIONS_MAX
from spark_connect_rt.rest.listening.free_ports import FreePorts, listening
from spark_connect_rt.rest.listening.turns import InTurns

if TYPE_CHECKING:
    from spark_connect_rt.rest.listening.event_driven_server import CalmServer

KEPT_ALIVE_S = 90  # clients and balancers keep idle connections for 60 or 75 s, and must be the ones that close them
STARTED_LIMIT_S = 30.0

Asgi = Callable[[Any, Any, Any], Awaitable[None]]


class RestServer:
    """``RestServer(create_app(herder), "127.0.0.1", 8083)``; port 0 takes a free one, then see ``port``.

    One listener. With ``tls`` it speaks https only; a client's certificate is checked as the context says.
    """

    def __init__(
        self,
        app: Asgi,
        host: str,
        port: int,
        tls: ssl.SSLContext | None = None,
        setting: str = "listeners",
        report: Report = report_nowhere,
        connections_max: int = CONNECTIONS_MAX,
        ports: FreePorts | None = None,
    ) -> None:
        """``report`` is called for a server that ended unasked; ``ports`` may hold the socket already."""
        self._ports = ports or FreePorts()
        self._connections_max = connections_max
        self._report = report
        self._app = app
        self._tls = tls
        self._setting = setting
        self.host = host
        self.port = port
        self._socket: socket.socket | None = None
        self._server: CalmServer | None = None
        self._thread: threading.Thread | None = None

    def bind(self) -> None:
        """Take the port, answering nothing yet: clients wait instead of being refused. Idempotent.

        Raises StartupError (exit code 16) naming the listener.
        """
        if self._socket is not None:
            return
        try:
            self._socket = self._ports.take(self.host, self.port) or listening(self.host, self.port)
        except OSError as error:
            raise cannot_listen(
                Listener("https" if self._tls else "http", self.host, self.port), self._setting, error
            ) from error
        self.port = int(self._socket.getsockname()[1])

    def start(self) -> None:
        """Bind if need be, then answer from a thread. Raises StartupError (exit code 16)."""
        import uvicorn

        from spark_connect_rt.rest.listening.event_driven_server import HEAD_MAX_BYTES, CalmServer

        self.bind()
        logging.getLogger("uvicorn.error").addFilter(_is_no_offered_upgrade)
        config = uvicorn.Config(
            InTurns(self._app),
            log_config=None,
            access_log=False,
            lifespan="on",
            loop="asyncio",
            http="h11",
            ws="none",
            server_header=False,
            proxy_headers=False,  # as Java: neither a client's address nor its scheme is taken from a header
            h11_max_incomplete_event_size=HEAD_MAX_BYTES,
            timeout_keep_alive=KEPT_ALIVE_S,
            timeout_graceful_shutdown=5,
        )
        config.load()
        config.ssl = self._tls  # a context made from Java's settings; uvicorn itself only reads files
        self._server = server = CalmServer(config, self._connections_max)
        sockets = [self._socket] if self._socket else []
        ended: list[BaseException | str] = []  # before it was up: raised to the caller

        def report(part: SupervisedPart, why: BaseException | str) -> None:
            ended.append(why)
            if server.started:
                self._report(part, why)

        run = watched(lambda: server.run(sockets=sockets), SupervisedPart.REST, report, lambda: server.should_exit)
        self._thread = threading.Thread(target=run, name="rest-server", daemon=True)
        self._thread.start()
        waiting = threading.Event()
        for _ in range(int(STARTED_LIMIT_S / 0.005)):
            if server.started or not self._thread.is_alive():
                break
            waiting.wait(0.005)
        if not server.started:
            why = ended[0] if ended else f"not within {STARTED_LIMIT_S:.0f} s"
            raise StartupError(f"the REST server did not start: {why}", exit_code=EXIT_PART_FAILED)

    def stop(self, timeout_s: float = 10.0) -> None:
        """Answer what is in progress, then close the port. Safe to call twice."""
        if self._server is not None:
            self._server.end()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout_s)
        if self._socket is not None:
            self._socket.close()
        self._server = self._thread = self._socket = None


class RestServers:
    """All listeners of a worker: started together, stopped together."""

    def __init__(self, servers: Sequence[RestServer]) -> None:
        self._servers = list(servers)

    def bind(self) -> None:
        """Take every port. Raises StartupError (exit code 16); then none is kept."""
        try:
            for server in self._servers:
                server.bind()
        except StartupError:
            self.stop()
            raise

    def start(self) -> None:
        """Bind, then answer. Raises StartupError (exit code 16)."""
        self.bind()
        for server in self._servers:
            server.start()

    def stop(self) -> None:
        """Answer what is in progress, then close every port. Safe to call twice."""
        for server in self._servers:
            server.stop()


def cannot_listen(listener: Listener, setting: str, error: OSError) -> StartupError:
    """Return the error with which a worker ends when its listener is unavailable (exit code 16)."""
    return StartupError(
        f"cannot listen on {listener.scheme}://{listener.host or '0.0.0.0'}:{listener.port} (setting '{setting}'): "
        f"{error.strerror or error}. Stop the process that uses the port, or let the system choose a free one with "
        f"--set {setting}={listener.scheme}://{listener.host or '0.0.0.0'}:0",
        exit_code=EXIT_LISTENER_TAKEN,
        code="CRT-1085",
    )


def _is_no_offered_upgrade(record: logging.LogRecord) -> bool:
    """Every client of the JDK offers HTTP/2 with each request: a server that ignores it continues with HTTP/1.1."""
    return not record.msg.startswith(("Unsupported upgrade request", "No supported WebSocket library"))
