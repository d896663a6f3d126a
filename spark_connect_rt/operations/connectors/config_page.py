"""The tab Configuration: the editor, what an edit changes, and its writing, unless another client wrote meanwhile.

Owns: ``/console/connectors/{connector}/configuration``. A page knows the version it was made of by a seal: a digest of
the stored configuration under this process's key. So a change of a secret alone is noticed, and nothing can be guessed.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from spark_connect_rt.base.hidden_values import HIDDEN
from spark_connect_rt.config.secrets import references
from spark_connect_rt.console.api import Api, ApiError, at
from spark_connect_rt.console.config_form import hidden, is_secret_name
from spark_connect_rt.console.frame import PageFrame, connector_page, form
from spark_connect_rt.console.values import mapping, objects
from spark_connect_rt.operations.connectors.config_editor import (
    posted_config,
    stored_config,
    validated_form,
    validation,
)
from spark_connect_rt.operations.plugin_install.page import connector_line, plugin_lines
from spark_connect_rt.rest.paths import ConnectorName, decoded

# The changes of an edit, as users may see them: secrets are named, their values are not. Pure.


@dataclass(frozen=True, slots=True)
class EditedSetting:
    """One setting before and after; None: it is not there. Of a secret that differs, ``secret`` says so."""

    setting: str
    before: str | None
    after: str | None
    secret: bool = False


def changes(
    before: Mapping[str, str], after: Mapping[str, str], secrets: Collection[str] = ()
) -> tuple[EditedSetting, ...]:
    """Return the settings that differ, by name.

    Args:
        before: as it is stored, secrets and all.
        after: as it is to be, secrets and all.
        secrets: names of settings whose values are hidden, in addition to those whose name says it.
    """
    found = []
    for name in sorted({*before, *after}):
        old, new = before.get(name), after.get(name)
        if old != new:
            secret = name in secrets or is_secret_name(name)
            found.append(EditedSetting(name, _shown_change(old, secret), _shown_change(new, secret), secret))
    return tuple(found)


def secrets_of(validation: Mapping[str, Any], shown: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of secret settings: those declared as PASSWORD, and those that the worker hides itself.

    Args:
        validation: the answer of a validation; empty: there was none.
        shown: a configuration as the worker shows it.
    """
    declared = {
        str((config.get("definition") or {}).get("name"))
        for config in validation.get("configs") or ()
        if (config.get("definition") or {}).get("type") == "PASSWORD"
    }
    return frozenset(declared | {name for name, value in shown.items() if value == HIDDEN})


def _shown_change(value: str | None, secret: bool) -> str | None:
    return HIDDEN if value and secret and not references(value) else value


Fields = Mapping[str, Sequence[str]]


def add_routes(routes: APIRouter, frame: PageFrame) -> None:
    """Add the tab, the diff, the writing."""

    @routes.get("/connectors/{connector}/configuration")
    async def configuration(request: Request, connector: ConnectorName) -> Response:
        name, api = decoded(connector), frame.api(request)
        stored = await stored_config(api, name)
        shown = await _shown(api, name, stored)
        found, plugins = await asyncio.gather(validated_form(api, shown, name), api.get_or({}, at("admin", "plugins")))
        line = connector_line(plugin_lines(objects(mapping(plugins).get("plugins"))), shown.get("connector.class", ""))
        values = {
            "form": found,
            "description": line.description if line else "",
            "seal": frame.seal(stored),
            "base_config": _text(shown),
        }
        return await connector_page(frame, request, name, "configuration", "connector_config.html", **values)

    @routes.post("/connectors/{connector}/configuration/diff")
    async def diff(request: Request, connector: ConnectorName) -> Response:
        name, api, fields = decoded(connector), frame.api(request), await form(request)
        wanted = await posted_config(api, {**fields, "connector": [name]})
        stored = await stored_config(api, name)
        shown = await _shown(api, name, stored)
        findings = await _findings(api, wanted)
        secrets = secrets_of(findings, shown)
        return frame.fragment(
            request,
            "_config_diff.html",
            name=name,
            changes=changes(stored, wanted, secrets),
            theirs=_theirs(fields, stored, shown, frame.seal(stored)),
            wrong=findings.get("error_count") or 0,
            seal=frame.seal(stored),
            base_config=_text(shown),
        )

    @routes.post("/connectors/{connector}/configuration")
    async def write(request: Request, connector: ConnectorName) -> Response:
        name, api, fields = decoded(connector), frame.api(request), await form(request)
        wanted = await posted_config(api, {**fields, "connector": [name]})
        path = at("connectors", name, "config")
        stored, version = await api.get_version(path)
        if _theirs(fields, stored, await _shown(api, name, stored), frame.seal(stored)) is not None:
            raise _changed_meanwhile(name)
        try:
            await api.send("PUT", path, wanted, version=version)
        except ApiError as error:
            if error.status == 412:  # in this very moment
                raise _changed_meanwhile(name) from error
            raise
        return frame.done(request, f"The configuration of {name} is saved.", events=("console:saved",))


def _changed_meanwhile(name: str) -> ApiError:
    return ApiError(
        409,
        f"Another client changed {name} in the meantime, so nothing was saved. Close this and review again: the "
        "review then shows their change next to yours.",
    )


def _theirs(fields: Fields, stored: Mapping[str, str], shown: Mapping[str, str], seal: str) -> tuple[Any, ...] | None:
    """Return what another client changed since the page was made; None: nothing. Pure.

    A page that another process made (its worker is gone) has a seal without meaning here, so its configuration is
    compared.
    """
    seen, base = (fields.get("seal") or [""])[0], (fields.get("base_config") or [""])[0]
    if seen == seal:
        return None
    try:
        before = {str(name): str(value) for name, value in json.loads(base).items()}
    except (ValueError, AttributeError, RecursionError):
        before = {}
    found = changes(before, shown)
    if not found and seen.partition(".")[0] != seal.partition(".")[0]:
        return None
    return found


async def _shown(api: Api, name: str, stored: Mapping[str, str]) -> dict[str, str]:
    """Return the stored configuration as a page may hold it. Values that the worker hides are hidden here too."""
    detail = await api.get(at("admin", "connectors", name))
    worker = detail.get("config") or {}
    return hidden(stored, {name for name in stored if worker.get(name) == HIDDEN})


async def _findings(api: Api, config: Mapping[str, str]) -> Mapping[str, Any]:
    """Return what the worker finds out about a configuration; empty where it cannot validate it."""
    try:
        found: Mapping[str, Any] = await validation(api, config.get("connector.class", ""), config)
    except ApiError as error:
        if error.status == 401:
            raise
        return {}
    return found


def _text(config: Mapping[str, str]) -> str:
    return json.dumps(config, ensure_ascii=False, sort_keys=True)
