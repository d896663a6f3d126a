"""The editor of a configuration, with findings for its fields while a user types. Owns ``POST /console/form``.

For pages that hold one: ``posted_config`` reads what it sends, ``validated_form`` makes what ``_config_editor.html``
shows. In neither direction does a stored secret leave the worker: ``[hidden]`` takes its place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from spark_connect_rt.console.api import Api, ApiError, at
from spark_connect_rt.console.config_form import Form, form_of, read_json, restored
from spark_connect_rt.console.frame import PageFrame, form


def add_routes(routes: APIRouter, frame: PageFrame) -> None:
    """Add the routes that the editor calls while the user types."""

    @routes.post("/form")
    async def fields(request: Request) -> Response:
        given = await form(request)
        api, connector = frame.api(request), given.get("connector", [""])[0]
        config, problem = read_json(given.get("config", [""])[0])
        found = form_of({}, {}, problem) if problem else await validated_form(api, config, connector)
        return frame.fragment(request, "_config_fields.html", form=found)


async def validated_form(api: Api, given: Mapping[str, str], connector: str = "", *, untouched: bool = False) -> Form:
    """Return the form of a configuration with what is wrong with it.

    Args:
        api: asked for the validation.
        given: as a page holds it: ``[hidden]`` for secrets.
        connector: whose stored secrets these are; empty: there is none yet.
        untouched: the user has not typed anything yet (see ``form_of``).

    Raises ApiError when the API does not answer. Its findings about the configuration are in the form.
    """
    name = given.get("connector.class", "")
    if not name:
        return form_of({}, given, "connector.class is missing. Set the class of a plug-in.")
    config, missing = restored(given, await stored_config(api, connector))
    try:
        answer = await validation(api, name, config)
    except ApiError as error:
        if error.status == 401:
            raise
        return form_of({}, given, error.message)
    return form_of(answer, given, _nothing_stored(missing) if missing else "", untouched=untouched)


async def validation(api: Api, plugin: str, config: Mapping[str, str]) -> Any:
    """Return what the worker finds out about a configuration. Raises ApiError.

    The management API also names each setting's choices; where it is not served, Java's answer has to do.
    """
    path = at("connector-plugins", plugin, "config", "validate")
    try:
        return await api.send("PUT", at("admin") + path, config)
    except ApiError as error:
        if not error.unserved:
            raise
        return await api.send("PUT", path, config)


async def posted_config(api: Api, fields: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return the configuration that an editor sends, secrets put in. Raises ApiError: it is invalid."""
    config, problem = read_json((fields.get("config") or [""])[0])
    if problem:
        raise ApiError(400, f"The configuration cannot be read: {problem}")
    whole, missing = restored(config, await stored_config(api, (fields.get("connector") or [""])[0]))
    if missing:
        raise ApiError(400, _nothing_stored(missing))
    return whole


async def stored_config(api: Api, connector: str) -> Mapping[str, str]:
    """Return a connector's configuration as it is stored, secrets and all: for the API, never for a page."""
    if not connector:
        return {}
    found: Mapping[str, str] = await api.get(at("connectors", connector, "config"))
    return found


def _nothing_stored(missing: Sequence[str]) -> str:
    return f"[hidden] means the stored value, but nothing is stored for {', '.join(missing)}. Type a value."
