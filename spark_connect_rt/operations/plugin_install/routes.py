"""``/admin/plugins``: installs, lists and removes plug-ins while the worker runs (ours).

Owns who may change them: ``connectrt.plugins.install``. A page in a browser may not, wherever it comes from: the body
must be JSON, and from loopback clients the name they used for this worker must be one of this machine's. Nor may the
clients of a proxy on this machine, all of which come from a loopback address: an authorized client shows a token
(install_token.py).
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from spark_connect_rt.base.json_text import decode_json
from spark_connect_rt.config.management_config import ALLOW, DENY, INSTALL, LOOPBACK, TOKEN_FILE
from spark_connect_rt.config.worker_config import is_loopback
from spark_connect_rt.errors import BadRequestError, DataError, ForbiddenError, NotFoundError
from spark_connect_rt.plugins.interfaces import PluginInstalls, WantedPlugin
from spark_connect_rt.rest.client_identity import who
from spark_connect_rt.rest.paths import decoded, json_body
from spark_connect_rt.rest.requests import JsonResponse
from spark_connect_rt.rest.shapes import PluginReport

ReadPlugins = Callable[[], Mapping[str, Sequence[Mapping[str, Any]]]]
"""Returns the plug-ins of this machine, and the files that cannot be loaded.

``{"plugins": [{class, type, version, location, description}], "broken": [{name, location, error}]}``
"""


@dataclass(frozen=True, slots=True)
class InstallRights:
    """Where plug-ins are installed, and by which clients: ``connectrt.plugins.install``."""

    installs: PluginInstalls
    mode: str
    token: str = ""  # of connectrt.plugins.install.token.file; empty: none counts
    is_private: bool = False  # served on loopback ``admin.listeners`` alone, without a proxy in front


T = TypeVar("T")
TOKEN_HEADER = "X-Connectrt-Install-Token"
CHANGES_AT_ONCE = 2  # a download may take minutes, and reads of the management API must not wait for it
_PROXIED = ("forwarded", "x-forwarded-for", "x-real-ip")
_WANTED = ("source", "sha512", "name", "version")


def add_routes(routes: APIRouter, plugins: ReadPlugins | None, rights: InstallRights | None) -> None:
    """Add the routes; ``rights`` None: nothing is installed here."""
    installs = rights.installs if rights else None
    changes = ThreadPoolExecutor(CHANGES_AT_ONCE, thread_name_prefix="plugin-installs")

    @routes.get("/admin/plugins")
    async def all_plugins() -> Response:
        """Return all plug-ins by their metadata, those that cannot be used, and those installed while running."""

        def report() -> PluginReport:  # folders are read, and Java may be asked
            found = plugins() if plugins else {}
            here = installs.installed() if installs else ()
            return PluginReport(**found, installed=here, problem=installs.problem() if installs else "")

        return JsonResponse(await _beside(report))

    @routes.post("/admin/plugins")
    async def install(request: Request) -> Response:
        """Install a plug-in on every worker of the group: a coordinate, an archive's URL, a Python requirement."""
        where = _allowed(request, rights)
        wanted = read_wanted(await json_body(request))
        client = who(request)
        return JsonResponse(await _beside(lambda: where.install(wanted, client), changes), 201)

    @routes.get("/admin/plugins/{plugin}")
    async def versions(plugin: str) -> Response:
        """Return the installed versions of one plug-in, and their state on each worker."""
        name = decoded(plugin)
        known = await _beside(installs.installed) if installs else ()
        found = [info for info in known if info.name == name]
        if not found:
            raise NotFoundError(f"plug-in {name} is not installed")
        return JsonResponse(found)

    @routes.delete("/admin/plugins/{plugin}/{version}")
    async def remove(request: Request, plugin: str, version: str) -> Response:
        """Remove an installed plug-in from every worker of the group; refused while a connector uses it."""
        where = _allowed(request, rights)
        name, number, client = decoded(plugin), decoded(version), who(request)
        await _beside(lambda: where.remove(name, number, client), changes)
        return Response(status_code=204)


async def _beside(work: Callable[[], T], threads: ThreadPoolExecutor | None = None) -> T:
    """Do what blocks on one of ``threads``; None: on those that all reads share."""
    return await asyncio.get_running_loop().run_in_executor(threads, work)


def read_wanted(data: bytes) -> WantedPlugin:
    """Return what a request's body asks for. Raises BadRequestError."""
    try:
        body = decode_json(data)
    except DataError as error:
        raise BadRequestError(f"the body is {error}") from error
    if not isinstance(body, dict) or not isinstance(body.get("source"), str) or not body["source"].strip():
        raise BadRequestError('the body must be {"source": "group:artifact:version, path, URL or requirement", ...}')
    unknown = sorted(set(body) - set(_WANTED))
    if unknown or not all(isinstance(value, str) for value in body.values()):
        raise BadRequestError(f"the body holds texts: {', '.join(_WANTED)}" + (f"; not {unknown}" if unknown else ""))
    return WantedPlugin(**{**asdict(WantedPlugin("")), **body})


def may_change(
    mode: str, client: str, headers: Mapping[str, str], *, token: str = "", is_private: bool = False
) -> bool:
    """Return whether a client may install and remove. Pure.

    Args:
        mode: ``connectrt.plugins.install``.
        client: its address.
        headers: of the request, names in lower case.
        token: that a client of the listeners for everybody must send; empty: none will do.
        is_private: the request came by a listener that only this machine's clients are meant to reach.
    """
    if mode.lower() == ALLOW:
        return True
    if mode.lower() != LOOPBACK or any(name in headers for name in _PROXIED):
        return False
    given = headers.get(TOKEN_HEADER.lower(), "")
    is_known = is_private or (bool(token) and hmac.compare_digest(given.encode(), token.encode()))
    return is_known and is_loopback(client) and is_loopback(_host_of(headers.get("host", "")))


def _host_of(host: str) -> str:
    return host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]


def _allowed(request: Request, rights: InstallRights | None) -> PluginInstalls:
    client = request.client.host if request.client else ""
    mode = rights.mode if rights else DENY
    if rights is None or not may_change(
        mode, client, request.headers, token=rights.token, is_private=rights.is_private
    ):
        raise ForbiddenError(
            f"client {client or 'unknown'} may not install or remove plug-ins: the worker's file sets "
            f"{INSTALL}={mode}. With {LOOPBACK}, clients on the worker's machine may, if they send the token of "
            f"{TOKEN_FILE} in {TOKEN_HEADER} or use admin.listeners on a loopback address. With {ALLOW}, every "
            "client may",
            code="CRT-1160",
        )
    return rights.installs
