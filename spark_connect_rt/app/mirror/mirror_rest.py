"""The one internal REST server of a dedicated MirrorMaker, for all its flows (Java ``MirrorRestServer``; KIP-710).

``/{source}/{target}/connectors/{c}/tasks`` and ``/fence``: a flow's leader is asked there by the other processes with
the same file. Signed with the flow's session key. Nothing else is served.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Mount

from spark_connect_rt.app.rest.rest_api import servers_of
from spark_connect_rt.app.rest.rest_app import create_internal_app
from spark_connect_rt.config.worker_config import Listener
from spark_connect_rt.connectors.mirror.maker_config import INTERNAL_REST, SourceAndTarget
from spark_connect_rt.errors import ConnectError
from spark_connect_rt.group.peers import PeerAnswer, PeerClient
from spark_connect_rt.rest.listening.free_ports import FreePorts
from spark_connect_rt.rest.server import RestServers
from spark_connect_rt.rest.tls import LISTENERS
from spark_connect_rt.runtime.herder.herder_api import HerderApi


def flow_path(flow: SourceAndTarget) -> str:
    """Return where a flow's requests go, without a slash at the end."""
    return "".join(f"/{quote(alias, safe='')}" for alias in (flow.source, flow.target))


class FlowPeers:
    """A PeerClient of one flow: a leader's URL is that of its process, which has a path for each flow."""

    def __init__(self, peers: PeerClient, flow: SourceAndTarget, internal_rest: bool = True) -> None:
        """Take how to ask another process; ``internal_rest`` False: none can be asked, which is reported instead."""
        self._peers = peers
        self._path = flow_path(flow)
        self._internal_rest = internal_rest

    def request(
        self,
        method: str,
        url: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_ms: int = 90_000,
    ) -> PeerAnswer:
        """See the port. Raises ConnectError: there is no internal REST."""
        if not self._internal_rest:
            raise ConnectError(
                f"{method} {url}: another process with this file leads the flow and cannot be reached. Set "
                f"{INTERNAL_REST}=true in all of them",
                code="CRT-1110",
            )
        parts = urlsplit(url)
        below = urlunsplit(parts._replace(path=self._path + parts.path))
        return self._peers.request(method, below, body, headers, timeout_ms)

    def close(self) -> None:
        """Close all connections to other processes."""
        self._peers.close()


class FlowApplications:
    """ASGI: each request to the application of the flow in its path. Flows are added as their herders come up."""

    def __init__(self) -> None:
        self._applications: dict[tuple[str, str], FastAPI] = {}

    def add(self, flow: SourceAndTarget, herder: HerderApi, peers: PeerClient) -> None:
        """Serve a flow from now on."""
        self._applications[flow.source, flow.target] = create_internal_app(herder, peers)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        raw: bytes = scope.get("raw_path") or scope["path"].encode()
        source, target, *rest = [*raw.partition(b"?")[0].decode("latin-1").split("/")[1:], "", ""]
        inner: Any = self._applications.get((unquote(source), unquote(target))) or Response(status_code=404)
        path = "/" + "/".join(rest).rstrip("/")
        await inner({**scope, "path": path, "raw_path": path.encode("latin-1"), "root_path": ""}, receive, send)

    @asynccontextmanager
    async def lifespan(self, _: Starlette) -> AsyncIterator[None]:
        """End what the flows' applications hold."""
        async with AsyncExitStack() as held:
            yield
            for application in self._applications.values():
                await held.enter_async_context(application.router.lifespan_context(application))


def internal_servers(
    listeners: Sequence[Listener],
    raw: Mapping[str, str],
    applications: FlowApplications,
    ports: FreePorts | None = None,
) -> RestServers:
    """Return the servers on the file's ``listeners``, not started. Raises BadConfigError."""
    whole = Starlette(routes=[Mount("/", app=applications)], lifespan=applications.lifespan)
    return RestServers(servers_of(whole, listeners, raw, LISTENERS, ports=ports))
