"""Concurrent edits of a configuration: the version that was read goes along, and the second edit is refused (ours).

``GET .../config`` has an ``ETag``; ``PUT`` and ``PATCH`` take it as ``If-Match``, or the number of the change that the
history names. The refusal's ``diff`` shows the changes of others in between. Java workers neither send nor check these.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from starlette.requests import Request

from spark_connect_rt.errors import BadRequestError, ConfigConflictError, NotFoundError
from spark_connect_rt.rest.change_history import CONFIG, ChangeQuery
from spark_connect_rt.rest.requests import RestContext
from spark_connect_rt.rest.shapes import ConfigChangedError
from spark_connect_rt.runtime.herder.herder_requests import CatchUp
from spark_connect_rt.topics.config_diff import SettingChange, config_diff

_TAG = re.compile(r'"config-([0-9]{1,18})"')
_NUMBER = re.compile(r'"?([0-9]{1,18})"?')
SEEN = 50  # changes that are scanned for the version that was read


def etag(version: int | None) -> Mapping[str, str]:
    """Return the header that names a version; none without one."""
    return {} if version is None else {"ETag": f'"config-{version}"'}


@asynccontextmanager
async def expected_version(context: RestContext, request: Request, name: str) -> AsyncIterator[int | None]:
    """Give the version that the request is about, None: any; a conflict within is answered with what was changed.

    Raises ConfigChangedError, BadRequestError: the header is neither a version nor the number of a change.
    """
    given = request.headers.get("if-match", "").strip()
    if given in ("", "*"):
        yield None
        return
    await asyncio.wrap_future(context.herder.submit(CatchUp()))
    if found := _TAG.fullmatch(given):
        expected: int | None = int(found[1])
    elif found := _NUMBER.fullmatch(given):
        expected = await _version_of(context, name, int(found[1]))
    else:
        raise BadRequestError('If-Match: must be the ETag of GET ("config-<version>") or the number of a change')
    if expected is None or context.herder.views.config_version(name) != expected:
        raise await _refusal(context, name, expected, given)
    try:
        yield expected
    except ConfigConflictError as error:
        raise await _refusal(context, name, expected, given) from error


async def _version_of(context: RestContext, name: str, number: int) -> int | None:
    """Return the present version if ``number`` is the newest change of the configuration, else None."""
    history = context.history
    if history is None:
        raise BadRequestError("If-Match: this worker keeps no history. Send the ETag of GET /connectors/{name}/config")
    version = context.herder.views.config_version(name)
    query = ChangeQuery(name, (CONFIG,), limit=1)
    page = await asyncio.get_running_loop().run_in_executor(None, lambda: history.changes(query))
    return version if page.changes and page.changes[0].number == number else None


async def _refusal(context: RestContext, name: str, expected: int | None, given: str) -> ConfigChangedError:
    what = f"version {given}" if expected is not None else f"change {given}"
    diff = await asyncio.get_running_loop().run_in_executor(None, lambda: _changed_since(context, name, given))
    text = f"Connector {name} was not configured: its configuration is no longer that of {what}"
    return ConfigChangedError(text, diff)


def _changed_since(context: RestContext, name: str, given: str) -> list[SettingChange]:
    """Return what was changed since the version that the client read, as far as the history knows it."""
    history = context.history
    if history is None:
        return []
    try:
        now = history.shown(context.herder.views.connector_config(name).written())
    except NotFoundError:
        now = None
    changes = history.changes(ChangeQuery(name, (CONFIG,), limit=SEEN)).changes
    if (tag := _TAG.fullmatch(given)) is not None:
        read = history.change_at(name, int(tag[1]))
        then = read.after if read is not None else (changes[0].before if changes else None)
    else:
        then = next((change.after for change in changes if str(change.number) == given.strip('"')), None)
    unseen = {setting for change in changes for setting in change.changed_unseen}
    return config_diff(then, now, unseen if then is not None else ())
