"""``POST /admin/preview``: a connector's records as it would read and convert them, with nothing left behind (ours)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from spark_connect_rt.base.json_text import JsonShape, described, left_out
from spark_connect_rt.engine.previews.model import RECORDS_MAX, SECONDS_MAX
from spark_connect_rt.errors import BadRequestError, NotFoundError
from spark_connect_rt.operations.preview.model import From, Preview, PreviewRequest, Previews
from spark_connect_rt.rest.json_bodies import json_object, switch_field
from spark_connect_rt.rest.paths import json_body
from spark_connect_rt.rest.requests import JsonResponse, RestContext, config_of
from spark_connect_rt.rest.shapes import Operation

_FIELDS = ("name", "config", "records", "seconds", "from", "offsets", "put")
_LOOK_S = 0.25  # between two looks whether the client is still there
_GONE = 499  # the client closed the connection; it does not read this
_Offset = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PreviewOffset(JsonShape):
    """A source partition and its offset, as in ``/connectors/{name}/offsets``."""

    partition: _Offset
    offset: _Offset


@dataclass(frozen=True, slots=True)
class WantedPreview(JsonShape):
    """The connector to preview: an existing one, a configuration, or that one from the offsets under a name."""

    name: str | None = field(default=None, metadata=left_out("Name of a connector, or of its stored offsets."))
    config: dict[str, str] | None = field(
        default=None, metadata=left_out("Configuration to preview instead of the connector's own.")
    )
    records: int = field(default=20, metadata=described("At most.", minimum=1, maximum=RECORDS_MAX))
    seconds: float = field(default=30.0, metadata=described("At most.", exclusiveMinimum=0, maximum=SECONDS_MAX))
    begin: str = field(
        default=From.STORED.value,
        metadata={
            "alias": "from",
            "description": "Start position: the stored offsets, the beginning, or the given offsets.",
            "json_schema_extra": {"enum": [member.value for member in From]},
        },
    )
    offsets: tuple[PreviewOffset, ...] = field(default=(), metadata=described("Offsets for from=given."))
    put: bool = field(default=False, metadata=described("Write the records to a sink that can roll them back."))


OPERATIONS = {
    ("POST", "/admin/preview"): Operation(
        "previewConnector",
        {200: Preview},
        {
            400: "The configuration or the request is invalid, or this connector cannot be previewed.",
            404: "The connector does not exist, or this worker serves no previews.",
            429: "This worker already runs as many previews as it may.",
        },
        WantedPreview,
    ),
}


def add_routes(routes: APIRouter, context: RestContext, previews: Previews | None) -> None:
    """Add the route to those of ``/admin``; ``previews`` None: this worker serves none."""
    threads = ThreadPoolExecutor(8, thread_name_prefix="rest-preview")

    @routes.post("/admin/preview")
    async def preview(request: Request) -> Response:
        """Run a connector for some records, and show each of them stage by stage; nothing of it stays."""
        if previews is None:
            raise NotFoundError("this worker does not serve previews")
        wanted = read_preview(await json_body(request))
        await context.started()
        cancelled = threading.Event()
        answer = asyncio.get_running_loop().run_in_executor(threads, lambda: previews.preview(wanted, cancelled))
        try:
            while not (await asyncio.wait([answer], timeout=_LOOK_S))[0]:
                if await request.is_disconnected():
                    cancelled.set()
                    await asyncio.wait([answer])
                    return Response(status_code=_GONE)
        finally:
            cancelled.set()  # also where this server stops
        return JsonResponse(await answer)


def read_preview(data: bytes) -> PreviewRequest:
    """Return what a request's body asks for. Raises BadRequestError, BadConfigError."""
    body = json_object(data, _FIELDS)
    name, config = body.get("name"), body.get("config")
    if name is None and config is None:
        raise BadRequestError("name or config is required: the configuration to preview")
    if name is not None and (not isinstance(name, str) or not name):
        raise BadRequestError("name: must be a non-empty string")
    words = [member.value for member in From]
    if body.get("from", From.STORED.value) not in words:
        raise BadRequestError(f"from: must be one of {', '.join(words)}")
    begin = From(body.get("from", From.STORED.value))
    if body.get("offsets") and begin is not From.GIVEN:
        raise BadRequestError("offsets: only valid with from=given")
    return PreviewRequest(
        name,
        None if config is None else config_of(config),
        int(_number(body, "records", 20, 1, RECORDS_MAX)),
        float(_number(body, "seconds", 30, 0.1, SECONDS_MAX)),
        begin,
        _offsets(body.get("offsets", [])),
        switch_field(body, "put"),
    )


def _number(body: Mapping[str, Any], name: str, default: float, least: float, most: float) -> float:
    given = body.get(name, default)
    whole = isinstance(given, int) and not isinstance(given, bool)
    if not whole and (name == "records" or not isinstance(given, float)):
        raise BadRequestError(f"{name}: must be a number")
    if not least <= given <= most:
        raise BadRequestError(f"{name}: must be between {least:g} and {most:g}")
    return float(given)


def _offsets(given: Any) -> tuple[tuple[_Offset, _Offset], ...]:
    if not isinstance(given, list) or not all(isinstance(entry, dict) for entry in given):
        raise BadRequestError('offsets: must be a list of {"partition": {...}, "offset": {...}}')
    pairs = []
    for entry in given:
        partition, offset = entry.get("partition"), entry.get("offset")
        if not isinstance(partition, dict) or not isinstance(offset, dict) or len(entry) > 2:
            raise BadRequestError('offsets: each entry must be {"partition": {...}, "offset": {...}}')
        pairs.append((partition, offset))
    return tuple(pairs)
