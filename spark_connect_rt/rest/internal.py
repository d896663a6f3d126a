"""Requests between workers: a follower's task configurations, zombie fencing (Java ``InternalConnectResource``).

And reads of this worker's memory for the management API of another (ours). Owns: checking the signature (KIP-507)
before anything else of the request is looked at, its headers before the body.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from spark_connect_rt.base.json_text import decode_json, encode_quick_json
from spark_connect_rt.errors import BadRequestError
from spark_connect_rt.group.peers import ALGORITHM_HEADER, SIGNATURE_HEADER, SignatureVerdict, verify
from spark_connect_rt.rest.json_bodies import UnreadableBodyError, wrong_type
from spark_connect_rt.rest.paths import ConnectorName, decoded, json_body
from spark_connect_rt.rest.peers import GroupReads
from spark_connect_rt.rest.requests import JsonResponse, RestContext, json_of, read_json, settings_of
from spark_connect_rt.rest.shapes import RestError
from spark_connect_rt.runtime.herder.herder_requests import FenceZombies, PutTaskConfigs
from spark_connect_rt.runtime.values import InternalKey

UNSIGNED = (
    "Reads between workers must be signed when /admin is not open to all clients. Set connect.protocol=sessioned."
)


def router(context: RestContext, reads: GroupReads | None = None, *, open_reads: bool = False) -> APIRouter:
    """Return the routes between workers.

    ``reads`` None: none are served. ``open_reads``: where the group has no key, they are served unsigned: any client of
    this listener can have them from ``/admin``, too.
    """
    routes = APIRouter(tags=["between workers"], include_in_schema=False)
    herder = context.herder

    @routes.post("/connectors/{connector}/tasks", status_code=204)
    async def put_task_configs(request: Request, connector: ConnectorName) -> Response:
        """Write a task set that a follower generated."""
        check_signed(herder.views.internal_key(), request)
        key, name = herder.views.internal_key(), decoded(connector)

        def read(body: bytes) -> list[dict[str, str]]:
            check_signature(key, request, body)
            return read_task_configs(body)

        configs = await read_json(request, read)
        await context.completed(request, PutTaskConfigs(name, configs), patient=False)
        return Response(status_code=204)

    @routes.put("/connectors/{connector}/fence", status_code=204)
    async def fence(request: Request, connector: ConnectorName) -> Response:
        """Fence older producers of a connector's tasks (KIP-618)."""
        check_signed(herder.views.internal_key(), request)
        check_signature(herder.views.internal_key(), request, await request.body())
        await context.completed(request, FenceZombies(decoded(connector)), patient=False)
        return Response(status_code=204)

    if reads is not None:
        _add_group_reads(routes, context, reads, open_reads)
    return routes


def _add_group_reads(routes: APIRouter, context: RestContext, reads: GroupReads, open_reads: bool) -> None:
    @routes.post("/internal/group-reads/{what}")
    async def group_read(request: Request, what: str) -> Response:
        """Return what this worker alone knows, to another worker."""
        key = context.herder.views.internal_key()
        if not key.required and SIGNATURE_HEADER not in request.headers and not open_reads:
            raise RestError(403, UNSIGNED, code="CRT-1033")
        # A signature that is there is checked, whatever the protocol: it has let the request past the login.
        key = replace(key, required=key.required or SIGNATURE_HEADER in request.headers)
        check_signed(key, request)
        body = await json_body(request)
        check_signature(key, request, body)
        arguments = decode_json(body) if body else {}
        if not isinstance(arguments, dict):
            raise BadRequestError("the arguments of a read must be an object")
        answer = await asyncio.to_thread(reads.answer, what, arguments)
        content = encode_quick_json({"answer": answer})
        return Response(content, media_type=JsonResponse.media_type)


def read_task_configs(body: bytes) -> list[dict[str, str]]:
    """Return the task configurations of the internal ``POST /connectors/{name}/tasks``."""
    fields = json_of(body)
    if not isinstance(fields, list):
        raise UnreadableBodyError(wrong_type("List", fields))
    return [settings_of(field) for field in fields]


def check_signed(key: InternalKey, request: Request) -> None:
    """Raise RestError unless the headers hold a signature that can be checked; nothing of the body is read for that."""
    if key.required:
        verdict = verify(key.key, key.accepted_algorithms, dict(request.headers), None)
        if verdict is not SignatureVerdict.MISMATCH and verdict is not SignatureVerdict.VALID:
            raise _refusal(verdict, key, request.headers.get(ALGORITHM_HEADER))


def check_signature(key: InternalKey, request: Request, body: bytes) -> None:
    """Raise RestError or BadRequestError unless the request is signed with the group's key, where it must be."""
    if not key.required:
        return
    verdict = verify(key.key, key.accepted_algorithms, dict(request.headers), body)
    if verdict is not SignatureVerdict.VALID:
        raise _refusal(verdict, key, request.headers.get(ALGORITHM_HEADER))


def _refusal(verdict: SignatureVerdict, key: InternalKey, algorithm: str | None) -> RestError:
    accepted = ", ".join(key.accepted_algorithms)
    status, message = {
        SignatureVerdict.MISSING: (400, "Internal request missing required signature"),
        SignatureVerdict.ALGORITHM_REFUSED: (
            400,
            f"This worker does not support the '{algorithm}' key signing algorithm used by other workers. "
            f"It accepts: {accepted}. Give every worker the same inter.worker.verification.algorithms.",
        ),
        SignatureVerdict.KEY_UNKNOWN: (
            503,
            "This worker is still starting up and has not been able to read a session key from the config topic yet",
        ),
        SignatureVerdict.MISMATCH: (403, "Internal request contained invalid signature."),
    }[verdict]
    return RestError(status, message, code="CRT-1033")
