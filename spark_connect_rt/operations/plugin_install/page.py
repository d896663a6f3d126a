"""Every plug-in with its versions, what is broken and why; installs and removes. Owns ``/console/plugins``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from spark_connect_rt.console.api import at
from spark_connect_rt.console.frame import PageFrame, form
from spark_connect_rt.console.values import mapping, objects, text, texts, whole

# The page Plug-ins, and the choice of one for a new connector. Pure.


CONNECTORS = ("source", "sink")
KINDS = (
    *("source", "sink", "converter", "header_converter", "transformation", "predicate", "configprovider"),
    *("rest_extension", "connector_client_config_override_policy"),
)
"""Kinds in the order in which they are shown; others follow."""


@dataclass(frozen=True, slots=True)
class PluginLine:
    """One class with its versions: (version, where it was found)."""

    class_name: str
    kind: str
    versions: tuple[tuple[str, str], ...]
    description: str = ""  # one sentence; empty: there is none

    @property
    def short(self) -> str:
        """The class without its package."""
        return self.class_name.rpartition(".")[2]


@dataclass(frozen=True, slots=True)
class BrokenLine:
    """A plug-in that cannot be used, and why."""

    name: str
    location: str
    error: str


@dataclass(frozen=True, slots=True)
class InstallOnWorker:
    """The state of an installed plug-in on one worker."""

    worker_id: str
    state: str
    reason: str


@dataclass(frozen=True, slots=True)
class InstalledLine:
    """A plug-in installed while the workers run."""

    name: str
    version: str
    source: str
    kind: str
    installed_by: str
    installed_at_ms: int | None
    classes: tuple[str, ...]
    recorded: bool
    workers: tuple[InstallOnWorker, ...]

    @property
    def failed(self) -> tuple[InstallOnWorker, ...]:
        """Workers that could not install it."""
        return tuple(worker for worker in self.workers if worker.state == "failed")


@dataclass(frozen=True, slots=True)
class PluginsPage:
    """Everything ``GET /admin/plugins`` says; ``kinds``: kind -> its plug-ins."""

    kinds: tuple[tuple[str, tuple[PluginLine, ...]], ...]
    broken: tuple[BrokenLine, ...]
    installed: tuple[InstalledLine, ...]
    problem: str


def plugins_page(answer: Mapping[str, Any]) -> PluginsPage:
    """Return the page of the answer."""
    lines = plugin_lines(objects(answer.get("plugins")))
    known = [kind for kind in KINDS if any(line.kind == kind for line in lines)]
    others = sorted({line.kind for line in lines} - set(KINDS))
    broken = tuple(
        BrokenLine(text(item.get("name")), text(item.get("location")), text(item.get("error")))
        for item in objects(answer.get("broken"))
    )
    return PluginsPage(
        tuple((kind, tuple(line for line in lines if line.kind == kind)) for kind in (*known, *others)),
        broken,
        tuple(_installed(item) for item in objects(answer.get("installed"))),
        text(answer.get("problem")),
    )


def plugin_lines(plugins: Iterable[Mapping[str, Any]]) -> tuple[PluginLine, ...]:
    """Return one line a class and kind, by class, with every version of it."""
    found: dict[tuple[str, str], list[tuple[str, str]]] = {}
    described: dict[tuple[str, str], str] = {}
    for plugin in plugins:
        key = text(plugin.get("class")), text(plugin.get("type")).lower()
        version = text(plugin.get("version")), text(plugin.get("location"))
        if version not in found.setdefault(key, []):
            found[key].append(version)
        described[key] = described.get(key) or text(plugin.get("description"))
    lines = (PluginLine(*key, tuple(versions), described[key]) for key, versions in found.items())
    return tuple(sorted(lines, key=lambda line: (line.short.lower(), line.class_name)))


def _installed(plugin: Mapping[str, Any]) -> InstalledLine:
    workers = tuple(
        InstallOnWorker(str(worker), text(mapping(state).get("state")), text(mapping(state).get("reason")))
        for worker, state in sorted(mapping(plugin.get("workers")).items())
    )
    return InstalledLine(
        name=text(plugin.get("name")),
        version=text(plugin.get("version")),
        source=text(plugin.get("source")),
        kind=text(plugin.get("kind")),
        installed_by=text(plugin.get("installed_by")),
        installed_at_ms=whole(plugin.get("installed_at_ms")),
        classes=texts(plugin.get("plugins")),
        recorded=plugin.get("recorded") is not False,
        workers=workers,
    )


def matching(plugins: Iterable[PluginLine], search: str, kind: str) -> tuple[PluginLine, ...]:
    """Return the connectors of a kind ("" is both) whose class or description contains all words of ``search``."""
    words = search.lower().split()
    kinds = (kind,) if kind in CONNECTORS else CONNECTORS
    return tuple(
        plugin
        for plugin in plugins
        if plugin.kind in kinds and all(word in f"{plugin.class_name} {plugin.description}".lower() for word in words)
    )


def connector_line(plugins: Iterable[PluginLine], name: str) -> PluginLine | None:
    """Return the connector of that class or alias (``FileStreamSource``), None: it is not known."""
    short = name.rpartition(".")[2].rpartition(":")[2]
    aliases = {name, short, f"{short}Connector"}
    return next(
        (plugin for plugin in plugins if plugin.kind in CONNECTORS and {plugin.class_name, plugin.short} & aliases),
        None,
    )


_WANTED = ("source", "name", "version", "sha512")


def add_routes(routes: APIRouter, frame: PageFrame) -> None:
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
