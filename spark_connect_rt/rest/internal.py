"""Requests between workers: a follower's task configurations, zombie fencing (Java ``InternalConnectResource``).

Owns: checking the signature (KIP-507) before anything else of the request is looked at, its headers before the body.
"""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from spark_connect_rt.ports.herder_requests import FenceZombies, PutTaskConfigs
from spark_connect_rt.ports.herder_values import InternalKey
from spark_connect_rt.protocol.internal_request import ALGORITHM_HEADER, SignatureVerdict, verify
from spark_connect_rt.rest.context import RestContext
from spark_connect_rt.rest.error_mapping import RestError
from spark_connect_rt.rest.negotiation import json_body
from spark_connect_rt.rest.paths import ConnectorName, decoded
from spark_connect_rt.rest.request_body import read_task_configs


def router(context: RestContext) -> APIRouter:
    """Return the routes between workers."""
    routes = APIRouter(tags=["between workers"], include_in_schema=False)
    herder = context.herder

    @routes.post("/connectors/{connector}/tasks", status_code=204)
    async def put_task_configs(request: Request, connector: ConnectorName) -> Response:
        """Write a task set that a follower generated."""
        check_signed(herder.views.internal_key(), request)
        body = await json_body(request)
        check_signature(herder.views.internal_key(), request, body)
        name, configs = decoded(connector), read_task_configs(body)
        await context.completed(request, PutTaskConfigs(name, configs), patient=False)
        return Response(status_code=204)

    @routes.put("/connectors/{connector}/fence", status_code=204)
    async def fence(request: Request, connector: ConnectorName) -> Response:
        """Shut out older producers of a connector's tasks."""
        check_signed(herder.views.internal_key(), request)
        check_signature(herder.views.internal_key(), request, await request.body())
        await context.completed(request, FenceZombies(decoded(connector)), patient=False)
        return Response(status_code=204)

    return routes


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
