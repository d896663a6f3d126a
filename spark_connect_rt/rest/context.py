"""What every router needs: the herder, a way to other workers, and how a request is carried to its answer.

Owns: the time limit of requests, forwarding (Java ``HerderRequestHandler``), the JSON response.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from spark_connect_rt.errors import NotAssignedError, NotLeaderError, RetriableError, TimedOutError
from spark_connect_rt.ports.herder import HerderApi
from spark_connect_rt.ports.peer_client import PeerAnswer, PeerClient
from spark_connect_rt.protocol.internal_request import ALGORITHM_HEADER, SIGNATURE_HEADER
from spark_connect_rt.protocol.json_text import decode_json, encode_json
from spark_connect_rt.rest.error_mapping import CONFLICT, NO_LEADER, RestError

T = TypeVar("T")

REQUEST_LIMIT_MS = 90_000
_FORWARDED_HEADERS = ("Authorization", SIGNATURE_HEADER, ALGORITHM_HEADER)


class JsonResponse(Response):
    """Compact JSON in the order of the fields, written as Jackson writes it."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """Return the body."""
        return encode_json(content)


class Forwarded(Exception):
    """Control flow: another worker answered; ``response`` is what it said."""

    def __init__(self, response: Response) -> None:
        super().__init__("answered by another worker")
        self.response = response


def flag(request: Request, name: str) -> bool | None:
    """Return a query parameter as Java's ``Boolean.valueOf`` reads it, None when absent."""
    text = request.query_params.get(name)
    return None if text is None else text.lower() == "true"


@dataclass(slots=True)
class RestContext:
    """One worker's REST side. ``peers`` None: a worker alone, nothing is forwarded."""

    herder: HerderApi
    version: str
    commit: str
    peers: PeerClient | None = None
    request_limit_ms: int = REQUEST_LIMIT_MS
    _forwarders: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(16, thread_name_prefix="rest-forward")
    )

    async def completed(self, request: Request, answer: Future[T]) -> T:
        """Wait for the herder's answer. Raises Forwarded when another worker gave it, else its error."""
        try:
            return await asyncio.wait_for(asyncio.wrap_future(answer), self.request_limit_ms / 1000)
        except TimeoutError:
            detail = self.herder.health().detail
            raise TimedOutError(f"Request timed out. {detail}".rstrip()) from None
        except NotLeaderError as error:
            url = error.leader_url
        except NotAssignedError as error:
            url = error.owner_url
        raise Forwarded(await self._forward(request, url))

    def close(self) -> None:
        """Stop forwarding."""
        self._forwarders.shutdown(wait=False, cancel_futures=True)

    async def _forward(self, request: Request, url: str | None) -> Response:
        """Send the request to ``url``: at most two hops, follower to leader to owner."""
        forward = flag(request, "forward")
        if forward is False:
            raise RestError(409, CONFLICT)
        if url is None or self.peers is None:
            raise RestError(409, NO_LEADER)
        query = [(key, value) for key, value in request.query_params.multi_items() if key != "forward"]
        query.append(("forward", "true" if forward is None else "false"))
        target = f"{url.rstrip('/')}{request.scope['path']}?{urlencode(query)}"
        headers = {"Content-Type": "application/json", "User-Agent": "kafka-connect"}
        headers |= {name: request.headers[name] for name in _FORWARDED_HEADERS if name in request.headers}
        body = await request.body() or None
        answer = await self._ask_peer(request.method, target, body, headers)
        return _as_response(answer)

    async def _ask_peer(self, method: str, url: str, body: bytes | None, headers: Mapping[str, str]) -> PeerAnswer:
        peers = self.peers
        assert peers is not None  # _forward refused otherwise
        try:
            return await asyncio.get_running_loop().run_in_executor(
                self._forwarders,
                lambda: peers.request(method, url, body, headers, timeout_ms=self.request_limit_ms),
            )
        except RetriableError as error:
            raise RestError(500, f"IO Error trying to forward REST request: {error}", code=error.code) from error


def _as_response(answer: PeerAnswer) -> Response:
    """Return the other worker's answer as ours. Raises RestError with its status and words."""
    if answer.status >= 400:
        raise _peer_refusal(answer)
    if not 200 <= answer.status < 300:
        raise RestError(500, f"Unexpected status code when handling forwarded request: {answer.status}")
    location = {name: value for name, value in answer.headers.items() if name.lower() == "location"}
    media_type = "application/json" if answer.body else None
    return Response(answer.body, answer.status, headers=location, media_type=media_type)


def _peer_refusal(answer: PeerAnswer) -> RestError:
    try:
        body = decode_json(answer.body)
        return RestError(answer.status, str(body["message"]), code=body.get("code"))
    except Exception as error:  # noqa: BLE001 - whatever is wrong with it, it is no error body
        return RestError(500, f"IO Error trying to forward REST request: no error body ({error})")
