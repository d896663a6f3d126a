"""The editor of a configuration: what its fields show while somebody types. Owns ``POST /console/form``.

For pages that hold one: ``posted_config`` reads what it sends, ``validated_form`` makes what ``_config_editor.html``
shows. In neither direction does a stored secret leave the worker: ``[hidden]`` stands in its place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from spark_connect_rt.console.api import Api, ApiError, at
from spark_connect_rt.console.config_form import Form, form_of, read_json, restored
from spark_connect_rt.console.frame import Frame, form


def add_routes(routes: APIRouter, frame: Frame) -> None:
    """Add what the editor asks while somebody types."""

    @routes.post("/form")
    async def fields(request: Request) -> Response:
        given = await form(request)
        api, connector = frame.api(request), given.get("connector", [""])[0]
        config, problem = read_json(given.get("config", [""])[0])
        found = form_of({}, {}, problem) if problem else await validated_form(api, config, connector)
        return frame.fragment(request, "_config_fields.html", form=found)


async def validated_form(api: Api, given: Mapping[str, str], connector: str = "") -> Form:
    """Return the form of a configuration with what is wrong with it.

    Args:
        api: asked for the validation.
        given: as a page holds it: ``[hidden]`` for secrets.
        connector: whose stored secrets these are; empty: there is none yet.

    Raises ApiError when the API does not answer; what it says of the configuration is in the form.
    """
    name = given.get("connector.class", "")
    if not name:
        return form_of({}, given, "connector.class is missing: which plug-in is it to be?")
    config, missing = restored(given, await stored_config(api, connector))
    try:
        answer = await api.send("PUT", at("connector-plugins", name, "config", "validate"), config)
    except ApiError as error:
        if error.status == 401:
            raise
        return form_of({}, given, error.message)
    found = form_of(answer, given)
    return form_of(answer, given, _nothing_stored(missing)) if missing else found


async def posted_config(api: Api, fields: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return the configuration that an editor sends, secrets put in. Raises ApiError: it is none."""
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
    return f"[hidden] stands for a stored value, and there is none of {', '.join(missing)}: type it in."
