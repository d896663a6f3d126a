"""The REST application: routers put together, errors turned into Connect's bodies.

``create_app(herder)`` is an ASGI application over any HerderApi; rest/server.py serves it from a thread.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from fastapi import APIRouter, Depends, FastAPI

from spark_connect_rt._version import CONNECT_VERSION
from spark_connect_rt.app.rest import admin_api as admin
from spark_connect_rt.app.rest import openapi as docs_page
from spark_connect_rt.app.rest.admin_api import NOTHING, Management
from spark_connect_rt.app.rest.openapi import describe
from spark_connect_rt.group.peers import PeerClient
from spark_connect_rt.operations.plugin_install.routes import InstallRights, ReadPlugins
from spark_connect_rt.rest import connector_plugins, connectors, health, internal, root
from spark_connect_rt.rest.middleware import BodyLimit, PluginExits
from spark_connect_rt.rest.paths import EncodedPaths, speaks_json
from spark_connect_rt.rest.requests import (
    REQUEST_LIMIT_MS,
    RestContext,
    answer_errors,
)
from spark_connect_rt.runtime.herder.herder_api import HerderApi

_log = logging.getLogger(__name__)


def create_app(
    herder: HerderApi,
    peers: PeerClient | None = None,
    *,
    version: str = CONNECT_VERSION,
    commit: str = "unknown",
    request_limit_ms: int = REQUEST_LIMIT_MS,
    with_admin: bool = True,
    plugins: ReadPlugins | None = None,
    installs: InstallRights | None = None,
    management: Management = NOTHING,
) -> FastAPI:
    """Return the application; ``peers`` None: a worker alone, nothing is forwarded.

    ``with_admin`` False: /admin is served elsewhere (``create_admin_app``), or nowhere.
    """
    context = RestContext(herder, version, commit, peers, request_limit_ms, management.history)
    routers = [it.router(context) for it in (root, health, connectors, connector_plugins)]
    routers.append(internal.router(context, management.group_reads, open_reads=with_admin))
    if with_admin:
        routers.append(admin.router(context, plugins, installs, management))
    return _application(routers, context, version)


def create_admin_app(
    herder: HerderApi,
    plugins: ReadPlugins | None = None,
    installs: InstallRights | None = None,
    *,
    peers: PeerClient | None = None,
    version: str = CONNECT_VERSION,
    request_limit_ms: int = REQUEST_LIMIT_MS,
    management: Management = NOTHING,
) -> FastAPI:
    """Return the application behind ``admin.listeners``: /admin and nothing else."""
    context = RestContext(herder, version, "unknown", peers, request_limit_ms, management.history)
    return _application([admin.router(context, plugins, installs, management)], context, version)


def create_internal_app(
    herder: HerderApi, peers: PeerClient, *, version: str = CONNECT_VERSION, request_limit_ms: int = REQUEST_LIMIT_MS
) -> FastAPI:
    """Return the application of a worker that only its peers talk to (a flow of MirrorMaker, KIP-710)."""
    context = RestContext(herder, version, "unknown", peers, request_limit_ms)
    return _application([internal.router(context)], context, version)


def _application(routers: Sequence[APIRouter], context: RestContext, version: str) -> FastAPI:

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        context.close()

    app = FastAPI(
        docs_url=None, redoc_url=None, redirect_slashes=False, lifespan=lifespan, dependencies=[Depends(speaks_json)]
    )
    app.state.internal_key = context.herder.views.internal_key  # rest/client_identity.py
    for router in routers:
        app.include_router(router)
    pages = docs_page.routes()
    app.router.routes.extend(pages)
    app.add_middleware(BodyLimit)  # type: ignore[arg-type]
    app.add_middleware(EncodedPaths)  # type: ignore[arg-type]
    app.add_middleware(PluginExits)  # type: ignore[arg-type]
    answer_errors(app, [*pages, *(route for router in routers for route in router.routes)])
    describe(app, version)
    return app
