"""Every plug-in with its versions, what is broken and why; installs and removes. Owns ``/console/plugins``."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from spark_connect_rt.console.api import at
from spark_connect_rt.console.frame import Frame, form
from spark_connect_rt.operations.plugin_install.plugins import plugins_page

_WANTED = ("source", "name", "version", "sha512")


def add_routes(routes: APIRouter, frame: Frame) -> None:
    """Add the page and its actions."""

    @routes.get("/plugins")
    async def plugins(request: Request) -> Response:
        page = plugins_page(await frame.api(request).get(at("admin", "plugins")))
        return await frame.page(request, "plugins.html", page=page)

    @routes.post("/plugins")
    async def install(request: Request) -> Response:
        fields = await form(request)
        body = {name: fields[name][0].strip() for name in _WANTED if fields.get(name, [""])[0].strip()}
        await frame.api(request).send("POST", at("admin", "plugins"), {"source": "", **body})
        return frame.done(request, f"{body.get('source', '')} is installed. The table shows the state on each worker.")

    @routes.get("/plugins/remove")
    async def sure(request: Request) -> Response:
        name, version = request.query_params.get("name", ""), request.query_params.get("version", "")
        return frame.fragment(
            request,
            "_sure.html",
            title=f"Remove {name} {version}?",
            explains="It is removed from all workers of the group, unless a connector still uses it.",
            address=f"{request.scope['console']['root']}/console/plugins/remove",
            fields={"name": name, "version": version},
            words=f"Remove {name} {version}",
            danger=True,
        )

    @routes.post("/plugins/remove")
    async def remove(request: Request) -> Response:
        fields = await form(request)
        name, version = fields.get("name", [""])[0], fields.get("version", [""])[0]
        await frame.api(request).send("DELETE", at("admin", "plugins", name, version))
        return frame.done(request, f"{name} {version} is removed.")
