"""What every router needs: the herder, a way to other workers, and how a request is carried to its answer.

Owns: the time limit of requests, forwarding (Java ``HerderRequestHandler``), the JSON response.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from spark_connect_rt.base.json_text import decode_json, encode_finite_json
from spark_connect_rt.errors import (
    NotAssignedError,
    NotFoundError,
    NotLeaderError,
    RetriableError,
    TimedOutError,
    UnreachableError,
)
from spark_connect_rt.group.peers import ALGORITHM_HEADER, SIGNATURE_HEADER, PeerAnswer, PeerClient
from spark_connect_rt.rest.change_history import History
from spark_connect_rt.rest.error_mapping import CONFLICT, MOMENTARY, NO_LEADER, ConfigChangedError, RestError
from spark_connect_rt.rest.json_values import as_json
from spark_connect_rt.runtime.herder.herder_api import HerderApi
from spark_connect_rt.runtime.herder.herder_requests import CatchUp
from spark_connect_rt.runtime.herder.herder_requests import Request as HerderRequest
from spark_connect_rt.runtime.values import InternalKey
from spark_connect_rt.topics.config_diff import SettingChange

# Who asked: the client behind a request, as history, logs of changes and installs name it.
#
# Owns ``who`` and what a forwarded request carries of the first one's client. Where the group signs its internal
# requests the address is signed with the group's key; where it does not, a client that reaches the API could claim
# another address, as it could send any internal request. The user's name is never taken from a header: who forwards
# hands on the Authorization, and the worker that serves checks it.


CLIENT_HEADER = "X-Connectrt-Client"
CLIENT_SIGNATURE_HEADER = "X-Connectrt-Client-Signature"
NOTE_HEADER = "X-Connectrt-Note"
"""A client's own words on a change, for the history."""
LONGEST = 256  # characters of an address


def who(request: Request) -> str:
    """Return ``user@address``, or the address alone where no one logs in; of a forwarded request: the first client."""
    user = request.scope.get("user")
    name = getattr(user, "display_name", "") or ""
    address = _first_address(request) or (request.client.host if request.client else "unknown")
    return f"{name}@{address}" if name else address


def note_of(request: Request) -> str:
    """Return what the client says of its change, or nothing."""
    note = request.headers.get(NOTE_HEADER, "")[:LONGEST].strip()
    return note if note.isprintable() else ""


def handed_on(request: Request, key: InternalKey) -> Mapping[str, str]:
    """Return the headers by which the next worker knows the client of a request that is forwarded."""
    address = _first_address(request) or (request.client.host if request.client else "unknown")
    headers = {CLIENT_HEADER: address}
    if note := note_of(request):
        headers[NOTE_HEADER] = note
    if key.required and key.key is not None:
        headers[CLIENT_SIGNATURE_HEADER] = _signature(key.key, request, address)
    return headers


def _first_address(request: Request) -> str:
    """Return the address that a forwarded request carries and that may be believed, else nothing."""
    address = request.headers.get(CLIENT_HEADER, "")[:LONGEST]
    if not address or not address.isprintable() or "forward" not in request.query_params:
        return ""
    read_key: Callable[[], InternalKey] | None = getattr(request.app.state, "internal_key", None)
    key = read_key() if read_key else InternalKey(required=False, key=None)
    if not key.required:
        return address
    given = request.headers.get(CLIENT_SIGNATURE_HEADER, "")
    is_signed = key.key is not None and hmac.compare_digest(
        given.encode(), _signature(key.key, request, address).encode()
    )
    return address if is_signed else ""


def _signature(key: bytes, request: Request, address: str) -> str:
    signed = "\n".join((request.method, request.scope["path"], address))
    return base64.b64encode(hmac.new(key, signed.encode(), "sha256").digest()).decode("ascii")


T = TypeVar("T")

REQUEST_LIMIT_MS = 90_000
SETTLED_LIMIT_S = 0.5
IN_VAIN_S = 2.0  # behind a wait that was in vain nobody waits: in a run of creations what was asked for comes later
SETTLED_PAUSE_S, SETTLED_PAUSE_MOST_S = 0.01, 0.05
ASK_AGAIN_S = 0.25  # between two tries of a request that is impossible for the moment
_FORWARDED_HEADERS = ("Authorization", "If-Match", SIGNATURE_HEADER, ALGORITHM_HEADER)


class JsonResponse(Response):
    """A port's value as compact JSON, fields in their order, written as Jackson writes it."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """Return the body's bytes; ``content`` is anything that json_values.as_json takes."""
        return encode_finite_json(as_json(content))


class Forwarded(Exception):
    """Control flow: another worker answered; ``response`` is what it said."""

    def __init__(self, response: Response) -> None:
        super().__init__("answered by another worker")
        self.response = response


def flag(request: Request, name: str) -> bool | None:
    """Return a query parameter as Java's ``Boolean.valueOf`` reads it, the first of several, None when absent."""
    texts = request.query_params.getlist(name)
    return texts[0].lower() == "true" if texts else None


@dataclass(slots=True)
class RestContext:
    """One worker's REST side. ``peers`` None: a worker alone, nothing is forwarded."""

    herder: HerderApi
    version: str
    commit: str
    peers: PeerClient | None = None
    request_limit_ms: int = REQUEST_LIMIT_MS
    history: History | None = None  # None: who asks for a change is not noted
    _forwarders: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(16, thread_name_prefix="rest-forward")
    )
    _impatient_until_s: dict[str, float] = field(default_factory=dict)  # monotonic, by what is waited for

    async def started(self) -> None:
        """Wait until this worker knows the connectors: an empty list of a cold start is a wrong one. TimedOutError."""
        started = self.herder.started
        if not started.done():
            waiting = asyncio.wrap_future(started)  # never cancelled: others wait for it, too
            await asyncio.wait([waiting], timeout=self.request_limit_ms / 1000)
            if not waiting.done():
                raise self._late()
        started.result()

    async def known(self, read: Callable[[], T]) -> T:
        """Return what a read finds; before it says "not found" this worker reads the config topic to its end."""
        try:
            return read()
        except NotFoundError:
            await asyncio.wrap_future(self.herder.submit(CatchUp()))
            return read()

    async def settled(self, what: str, read: Callable[[], T], is_settled: Callable[[T], bool]) -> T:
        """Return what ``known`` finds, up to half a second later where another thread is about to write it.

        A client that asks right after its request was answered wants what the request led to. ``what``: a word for it.
        """
        begun_s, pause_s = time.monotonic(), SETTLED_PAUSE_S
        while True:
            found = await self.known(read)
            now_s = time.monotonic()
            if is_settled(found) or now_s < self._impatient_until_s.get(what, 0.0):
                return found
            if now_s >= begun_s + SETTLED_LIMIT_S:
                self._impatient_until_s[what] = now_s + IN_VAIN_S
                return found
            await asyncio.sleep(pause_s)
            pause_s = min(1.5 * pause_s, SETTLED_PAUSE_MOST_S)

    async def answered(self, wanted: HerderRequest[T]) -> T:
        """Return what this worker alone answers, whatever the group does. Raises its error, TimedOutError."""
        return await self._submitted(wanted, time.monotonic() + self.request_limit_ms / 1000)

    async def completed(self, request: Request, wanted: HerderRequest[T], *, patient: bool = True) -> T:
        """Return the herder's answer. Raises Forwarded when another worker gave it, else its error.

        A ``patient`` request that is impossible for the moment (there is no leader, who leads is gone or rebalances)
        is submitted again until its time is up; Java answers 409 or 500 at once.
        """
        end_s = time.monotonic() + self.request_limit_ms / 1000
        caught_up, refused = False, None
        while True:
            if refused is not None and time.monotonic() >= end_s:
                raise refused
            try:
                answer = await self._submitted(wanted, end_s)
                self.note(request, wanted, here=True)
                return answer
            except NotFoundError:
                if caught_up:
                    raise
                caught_up = True
                await asyncio.wrap_future(self.herder.submit(CatchUp()))
                continue
            except NotLeaderError as error:
                url = error.leader_url
            except NotAssignedError as error:
                url = error.owner_url
            try:
                response = await self._forward(request, url, end_s)
            except RestError as refusal:
                too_late = time.monotonic() + ASK_AGAIN_S >= end_s
                if too_late or not (patient and self._is_momentary(request, refusal)):
                    raise
                refused = refusal
                await asyncio.sleep(ASK_AGAIN_S)
                continue
            # What the other worker wrote is read here too, before the client is answered.
            if flag(request, "forward") is None:
                await asyncio.wrap_future(self.herder.submit(CatchUp()))
                self.note(request, wanted, here=False)
            raise Forwarded(response)

    def note(self, request: Request, wanted: HerderRequest[Any], *, here: bool) -> None:
        """Note for the history who asked for what was done; ``here`` False: another worker did it."""
        if self.history is not None:
            self.history.served(wanted, who(request), note_of(request), here=here)

    async def _submitted(self, wanted: HerderRequest[T], end_s: float) -> T:
        try:
            return await asyncio.wait_for(
                asyncio.wrap_future(self.herder.submit(wanted)), max(0.0, end_s - time.monotonic())
            )
        except TimeoutError:
            raise self._late() from None

    def _late(self) -> TimedOutError:
        return TimedOutError(f"Request timed out. {self.herder.views.health().detail}".rstrip())

    def _is_momentary(self, request: Request, refusal: RestError) -> bool:
        """Return whether the same request may succeed soon. A forwarded one is repeated where it came in."""
        if flag(request, "forward") is not None or self.peers is None:
            return False
        return refusal.code == UnreachableError.code or (refusal.status == 409 and str(refusal) in MOMENTARY)

    def close(self) -> None:
        """Stop forwarding; requests under way end with an error."""
        self._forwarders.shutdown(wait=False, cancel_futures=True)

    async def _forward(self, request: Request, url: str | None, end_s: float) -> Response:
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
        headers |= handed_on(request, self.herder.views.internal_key())
        body = await request.body() or None
        limit_ms = max(1, int((end_s - time.monotonic()) * 1000))
        answer = await self._ask_peer(request.method, target, body, headers, limit_ms)
        return _as_response(answer)

    async def _ask_peer(
        self, method: str, url: str, body: bytes | None, headers: Mapping[str, str], limit_ms: int
    ) -> PeerAnswer:
        peers = self.peers
        assert peers is not None  # _forward refused otherwise
        try:
            return await asyncio.get_running_loop().run_in_executor(
                self._forwarders,
                lambda: peers.request(method, url, body, headers, timeout_ms=limit_ms),
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
        if answer.status == 412 and "diff" in body:
            return ConfigChangedError(str(body["message"]), [SettingChange(**change) for change in body["diff"]])
        return RestError(answer.status, str(body["message"]), code=body.get("code"))
    except Exception as error:  # noqa: BLE001 - whatever is wrong with it, it is no error body
        return RestError(500, f"IO Error trying to forward REST request: no error body ({error})")
