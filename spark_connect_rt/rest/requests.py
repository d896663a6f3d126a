"""A request of the REST API: read its body, serve it here or forward it, answer it, or refuse it.

It reads in the order in which things happen. A route reads the body as Jackson reads it into Java's request classes. It
awaits ``RestContext.completed``: the herder serves the request, or another worker does and its answer is passed on
(Java ``HerderRequestHandler``). Every error becomes a status and a body here and nowhere else (Java
``ConnectExceptionMapper``): ``{"error_code": status, "message": Java's words}``, and the product's fields ``code``
(stable), ``hint`` (the fix), ``problems`` (of a configuration, by setting) and ``diff``.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any, TypeVar
from urllib.parse import urlencode

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match

from spark_connect_rt.base.java_hash_order import java_hash_order
from spark_connect_rt.base.json_text import decode_json, encode_finite_json
from spark_connect_rt.config.config_def import java_trim
from spark_connect_rt.config.connector_config import NULL_VALUE
from spark_connect_rt.errors import (
    AlreadyExistsError,
    BadConfigError,
    BadRequestError,
    ConfigConflictError,
    ConnectError,
    ForbiddenError,
    NotAssignedError,
    NotFoundError,
    NotLeaderError,
    PluginInUseError,
    RebalanceInProgressError,
    RetriableError,
    ShuttingDownError,
    TimedOutError,
    UnreachableError,
    UnsafeChangeError,
)
from spark_connect_rt.group.peers import ALGORITHM_HEADER, SIGNATURE_HEADER, PeerAnswer, PeerClient
from spark_connect_rt.rest.change_history import History
from spark_connect_rt.rest.client_identity import handed_on, note_of, who
from spark_connect_rt.rest.json_bodies import (
    UnreadableBodyError,
    offset_pair,
    parsed,
    read_any,
    refuse_constant,
    unknown_field,
    wrong_type,
)
from spark_connect_rt.rest.json_values import as_json
from spark_connect_rt.rest.paths import json_body
from spark_connect_rt.rest.shapes import INITIAL_STATES, ConfigChangedError, Error, RestError
from spark_connect_rt.runtime.herder.herder_api import HerderApi
from spark_connect_rt.runtime.herder.herder_requests import CatchUp, CreateConnector
from spark_connect_rt.runtime.herder.herder_requests import Request as HerderRequest
from spark_connect_rt.topics.config_diff import SettingChange
from spark_connect_rt.topics.config_records import TargetState

T = TypeVar("T")

REQUEST_LIMIT_MS = 90_000
SETTLED_LIMIT_S = 0.5
IN_VAIN_S = 2.0  # no request waits for so long after a wait without success: during many creations, all waits fail
SETTLED_PAUSE_S, SETTLED_PAUSE_MOST_S = 0.01, 0.05
ASK_AGAIN_S = 0.25  # between two tries of a request that cannot be served at the moment
_FORWARDED_HEADERS = ("Authorization", "If-Match", SIGNATURE_HEADER, ALGORITHM_HEADER)
_CREATE_FIELDS = ("config", "name", "initial_state", "initial_offsets")
LARGE_BYTES = 128 * 1024
_ONE_AT_A_TIME = ThreadPoolExecutor(1, thread_name_prefix="rest-large")
"""Parsing the largest body blocks the interpreter for a second. Two at once would double that."""


# ---- Read ----


async def read_json(request: Request, read: Callable[[bytes], T]) -> T:
    """Return ``read`` of a request's JSON body, and raise its errors. A large body is read on a separate thread."""
    body = await json_body(request)
    if len(body) < LARGE_BYTES:
        return read(body)
    return await asyncio.get_running_loop().run_in_executor(_ONE_AT_A_TIME, lambda: read(body))


def read_create(body: bytes) -> CreateConnector:
    """Return the body of ``POST /connectors`` as a request whose ``config`` holds the name.

    ``with_initial_offsets`` reads the offsets of the same body, because their numbers stay numbers.

    Raises UnreadableBodyError, BadRequestError, BadConfigError.
    """
    fields = json_of(body)
    if fields is None:
        raise UnreadableBodyError("The request body is empty. Send the name and config of a connector")
    if not isinstance(fields, dict):
        raise UnreadableBodyError(wrong_type("CreateConnectorRequest", fields))
    for key in fields:
        if key not in _CREATE_FIELDS:
            raise UnreadableBodyError(unknown_field(key, _CREATE_FIELDS))
    name = java_trim(_text(fields.get("name")) or "")
    if fields.get("config") is None:
        raise UnreadableBodyError("The request has no 'config'")
    initial_state = _initial_state(_text(fields.get("initial_state")))
    return CreateConnector(name, with_name(name, settings_of(fields["config"])), initial_state)


def with_initial_offsets(request: CreateConnector, body: bytes) -> CreateConnector:
    """Return the request with the ``initial_offsets`` of its body (KIP-995). Raises BadRequestError: invalid ones."""
    fields = read_any(body)
    entries = fields.get("initial_offsets") if isinstance(fields, dict) else None
    if entries is None:
        return request
    if not isinstance(entries, list) or not entries:
        raise BadRequestError('initial_offsets: must be a non-empty list of {"partition": {...}, "offset": {...}}')
    try:
        return replace(request, initial_offsets=[offset_pair(entry) for entry in entries])
    except UnreadableBodyError as error:
        raise BadRequestError(f"initial_offsets: {error}") from error


def _initial_state(text: str | None) -> TargetState | None:
    if text is None:
        return None
    if text.upper() not in INITIAL_STATES:
        raise UnreadableBodyError(f"initial_state: '{text}' is not valid. Use one of {', '.join(INITIAL_STATES)}")
    return INITIAL_STATES[text.upper()]


def read_config(name: str, body: bytes) -> dict[str, str]:
    """Return the body of ``PUT /connectors/{name}/config`` with the connector's name in it.

    Raises UnreadableBodyError, BadRequestError, BadConfigError.
    """
    fields = json_of(body)
    if fields is None:
        raise UnreadableBodyError("The request body is empty. Send a configuration")
    return with_name(name, settings_of(fields))


def with_name(name: str, config: Mapping[str, str]) -> dict[str, str]:
    """Return a configuration with its connector's name. Raises BadRequestError if it holds another name."""
    included = config.get("name", name)
    if included != name:
        raise BadRequestError(
            f"Connector name configuration ({included}) doesn't match connector name in the URL ({name})"
        )
    return {**config, "name": name}


def read_patch(body: bytes) -> dict[str, str | None]:
    """Return the body of ``PATCH /connectors/{name}/config``: a map of texts, in which None removes a setting."""
    return texts_of(json_of(body))


def config_of(fields: Any) -> dict[str, str]:
    """Return a configuration that is part of a body: an object of texts, numbers and switches.

    Raises UnreadableBodyError, BadConfigError.
    """
    if isinstance(fields, dict):
        fields = {key: json.dumps(value) if type(value) in (int, float) else value for key, value in fields.items()}
    return settings_of(fields)


def settings_of(fields: Any) -> dict[str, str]:
    """Return an object of scalars as a configuration of texts. Raises BadConfigError for each null."""
    texts = texts_of(fields)
    problems = {key: [NULL_VALUE] for key, value in texts.items() if value is None}
    if problems:
        raise BadConfigError(problems)
    return {key: value for key, value in texts.items() if value is not None}


def texts_of(fields: Any) -> dict[str, str | None]:
    """Return an object of scalars as texts, as Jackson coerces them; a null stays None. Raises UnreadableBodyError."""
    if not isinstance(fields, dict):
        raise UnreadableBodyError(wrong_type("Map", fields))
    return {str(_text(key)): _text(value) for key, value in fields.items()}


def _text(value: Any) -> str | None:
    """Return a scalar as text, as Jackson coerces it. None stays None. Raises UnreadableBodyError."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str):
        raise UnreadableBodyError(wrong_type("String", value))
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise UnreadableBodyError(f"Text cannot be encoded as UTF-8: {error.reason}") from error
    return str(value)


class _Number(str):
    """A JSON number with its digits as the client sent them."""

    __slots__ = ()


def json_of(body: bytes) -> Any:
    """Return a JSON body whose numbers keep the digits that were sent, or None if it is empty.

    Raises UnreadableBodyError.
    """
    if not body.strip():
        return None
    try:
        return parsed(body, _DECODER)
    except (ValueError, RecursionError) as error:
        raise UnreadableBodyError(f"The request body is not JSON: {error}") from error


_DECODER = json.JSONDecoder(parse_int=_Number, parse_float=_Number, parse_constant=refuse_constant)


# ---- Serve here or forward, and answer ----


class JsonResponse(Response):
    """A value as compact JSON, with its fields in their order, written as Jackson writes it."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """Return the bytes of the body. ``content`` is any value that ``json_values.as_json`` takes."""
        return encode_finite_json(as_json(content))


class Forwarded(Exception):
    """Control flow: another worker served the request, and ``response`` is its answer."""

    def __init__(self, response: Response) -> None:
        super().__init__("answered by another worker")
        self.response = response


def flag(request: Request, name: str) -> bool | None:
    """Return a query parameter as Java's ``Boolean.valueOf`` reads it, the first of several, or None without it."""
    texts = request.query_params.getlist(name)
    return texts[0].lower() == "true" if texts else None


@dataclass(slots=True)
class RestContext:
    """The REST side of a worker: it submits requests to the herder and forwards them to other workers.

    ``peers`` None: a worker without a group, which forwards nothing.
    """

    herder: HerderApi
    version: str
    commit: str
    peers: PeerClient | None = None
    request_limit_ms: int = REQUEST_LIMIT_MS
    history: History | None = None  # None: the client of a change is not recorded
    _forwarders: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(16, thread_name_prefix="rest-forward")
    )
    _impatient_until_s: dict[str, float] = field(default_factory=dict)  # monotonic, by what is waited for

    async def started(self) -> None:
        """Wait until this worker has read the connectors, because a list before that would be empty.

        Raises TimedOutError, or the error of the start.
        """
        started = self.herder.started
        if not started.done():
            waiting = asyncio.wrap_future(started)  # never cancelled: other requests wait for it, too
            await asyncio.wait([waiting], timeout=self.request_limit_ms / 1000)
            if not waiting.done():
                raise self._late()
        started.result()

    async def known(self, read: Callable[[], T]) -> T:
        """Return the result of ``read``. After a NotFoundError it reads the config topic to its end and tries again."""
        try:
            return read()
        except NotFoundError:
            await asyncio.wrap_future(self.herder.submit(CatchUp()))
            return read()

    async def settled(self, what: str, read: Callable[[], T], is_settled: Callable[[T], bool]) -> T:
        """Return the result of ``read`` once it is settled, or after half a second as it is.

        A client that reads right after its write expects the effect of the write, which another thread is about to
        produce. ``what`` names the effect: after a wait without success, no request waits for it for two seconds.
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
        """Return this worker's answer, which needs no other worker. Raises the herder's errors and TimedOutError."""
        return await self._submitted(wanted, time.monotonic() + self.request_limit_ms / 1000)

    async def completed(self, request: Request, wanted: HerderRequest[T], *, patient: bool = True) -> T:
        """Return the herder's answer. Raises Forwarded if another worker served the request, and the herder's errors.

        A ``patient`` request is submitted again until its time is up while the group has no leader, the leader is
        unreachable, or it rebalances. Java answers 409 or 500 at once.
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
            # Read the other worker's write before the answer, so that the client can read it here.
            if flag(request, "forward") is None:
                await asyncio.wrap_future(self.herder.submit(CatchUp()))
                self.note(request, wanted, here=False)
            raise Forwarded(response)

    def note(self, request: Request, wanted: HerderRequest[Any], *, here: bool) -> None:
        """Record the client of a change in the history. ``here`` False: another worker made the change."""
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
        """Return whether the request may succeed soon. The first worker repeats a forwarded request."""
        if flag(request, "forward") is not None or self.peers is None:
            return False
        return refusal.code == UnreachableError.code or (refusal.status == 409 and str(refusal) in MOMENTARY)

    def close(self) -> None:
        """Stop forwarding. Requests that are being forwarded end with an error."""
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
    """Return the other worker's answer as this worker's. Raises RestError with its status and message."""
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
    except Exception as error:  # noqa: BLE001 - any failure means that it is not an error body
        return RestError(500, f"IO Error trying to forward REST request: no error body ({error})")


# ---- Refuse ----


NO_LEADER = "Cannot complete request momentarily due to no known leader URL, likely because a rebalance was underway."
STALE = (
    "Cannot complete request momentarily due to stale configuration (typically caused by a concurrent config change)"
)
CONFLICT = "Cannot complete request because of a conflicting operation (e.g. worker rebalance)"
MOMENTARY = frozenset({NO_LEADER, STALE, CONFLICT})
"""Messages of answers 409 that a rebalance explains, this product's or Java's. Others (a used name) are final."""


HTTP_STATUS: dict[type[ConnectError], int] = {
    BadConfigError: 400,
    BadRequestError: 400,
    ForbiddenError: 403,
    NotFoundError: 404,
    AlreadyExistsError: 409,
    PluginInUseError: 409,
    ConfigConflictError: 412,
    UnsafeChangeError: 409,
    NotLeaderError: 409,
    NotAssignedError: 409,
    RebalanceInProgressError: 409,
}

HINTS: dict[type[ConnectError], str] = {
    BadConfigError: "Correct every setting listed in 'problems', then send the request again.",
    AlreadyExistsError: "Choose another name, or PUT /connectors/{name}/config to change this one.",
    ConfigConflictError: "Read the configuration again, review 'diff', then repeat your change.",
    PluginInUseError: "Delete or change the listed connectors, then send the request again.",
    NotLeaderError: "Send the request again in a moment.",
    NotAssignedError: "Send the request again in a moment.",
    RebalanceInProgressError: "Send the request again in a moment.",
    TimedOutError: "GET /health and GET /admin/story show the state of the worker.",
    ShuttingDownError: "Send the request to another worker of the group.",
    UnreadableBodyError: "Send JSON, with the header Content-Type: application/json.",
}


INSTALLED_HINT = "Install another version, or DELETE /admin/plugins/{name}/{version} first."
NOT_FOUND_HINTS = (
    ("/admin/loggers", "GET /admin/loggers lists the loggers."),
    ("/admin/plugins", "GET /admin/plugins lists the installed plug-ins."),
    ("/connector-plugins", "GET /connector-plugins?connectorsOnly=false lists the plug-ins."),
    ("/tasks/", "GET /connectors/{name}/tasks lists the tasks of a connector."),
    ("/connectors", "GET /connectors lists the connectors."),
)
"""(part of the request's path, the hint for it)."""


@dataclass(frozen=True, slots=True)
class ErrorAnswer:
    """The status and the body of a refusal."""

    status: int
    body: Error


def status_of(error: ConnectError) -> int:
    """Return the HTTP status of the nearest mapped base class, or 500."""
    if isinstance(error, RestError):
        return error.status
    return next((HTTP_STATUS[kind] for kind in type(error).__mro__ if kind in HTTP_STATUS), 500)


def answer_of(error: ConnectError, path: str = "/connectors") -> ErrorAnswer:
    """Return the answer to a refusal. ``path`` is the path of the request, which decides the hint."""
    status = status_of(error)
    problems = error.problems if isinstance(error, BadConfigError) else None
    diff = tuple(error.diff) if isinstance(error, ConfigChangedError) else None
    return ErrorAnswer(status, Error(status, message_of(error), error.code, _hint(error, path), problems, diff))


def _hint(error: ConnectError, path: str) -> str | None:
    if isinstance(error, AlreadyExistsError) and "/admin/plugins" in path:
        return INSTALLED_HINT
    if isinstance(error, NotFoundError):
        return next((hint for part, hint in NOT_FOUND_HINTS if part in path), None)
    return next((HINTS[kind] for kind in type(error).__mro__ if kind in HINTS), None)


def message_of(error: ConnectError) -> str:
    """Return the message that Java gives for an error."""
    if isinstance(error, BadConfigError):
        return invalid_config_message(error.problems)
    if isinstance(error, RebalanceInProgressError):
        return STALE
    return str(error)


def invalid_config_message(problems: Mapping[str, Any]) -> str:
    """Return Java's message about an invalid configuration: its problems, a line each."""
    lines = [line for why in problems.values() for line in why]
    return "\n".join(
        [
            f"Connector configuration is invalid and contains the following {len(lines)} error(s):",
            *lines,
            "You can also find the above list of errors at the endpoint "
            "`/connector-plugins/{connectorType}/config/validate`",
        ]
    )


def answer_of_http(status: int) -> ErrorAnswer:
    """Return the answer of the HTTP layer (unknown path, wrong method), in JAX-RS's words."""
    return ErrorAnswer(status, Error(status, f"HTTP {status} {HTTPStatus(status).phrase}"))


def answer_of_unexpected(error: Exception) -> ErrorAnswer:
    """Return the answer to an unforeseen failure. Its trace goes to the log only."""
    return ErrorAnswer(500, Error(500, str(error) or type(error).__name__, ConnectError.code))


def answer_errors(app: FastAPI, routes: Sequence[BaseRoute]) -> None:
    """Register the answers to every error that a route of ``app`` raises. ``routes`` name the methods of a path."""

    @app.exception_handler(ConnectError)
    async def refused(request: Request, error: ConnectError) -> Response:
        return _json(answer_of(error, request.scope["path"]))

    @app.exception_handler(ClientDisconnect)
    async def hung_up(_: Request, __: ClientDisconnect) -> Response:
        return Response(status_code=400)  # the client is gone

    @app.exception_handler(Forwarded)
    async def forwarded(_: Request, answer: Forwarded) -> Response:
        return answer.response

    @app.exception_handler(HTTPException)
    async def http_refused(request: Request, error: HTTPException) -> Response:
        # No content type, as Java: JAX-RS found no resource that could say what it produces.
        answer = answer_of_http(error.status_code)
        body = JsonResponse(answer.body).body
        if answer.status != 405:
            return Response(body, answer.status)
        methods = _methods(routes, request)
        allow = {"Allow": ",".join(methods)}
        if request.method == "OPTIONS":
            return Response(", ".join(java_hash_order(methods)), 200, headers=allow | {"Content-Type": "text/plain"})
        return Response(body, answer.status, headers=allow)

    @app.exception_handler(RequestValidationError)
    async def no_such_parameter(_: Request, __: RequestValidationError) -> Response:
        return _json(answer_of_http(404))  # JAX-RS: no path matches a parameter of the wrong type

    @app.exception_handler(Exception)
    async def unexpected(_: Request, error: Exception) -> Response:
        return _json(answer_of_unexpected(error))


def _methods(routes: Sequence[BaseRoute], request: Request) -> list[str]:
    """Return the methods that a path has in all routes; each route knows only its own."""
    methods: set[str] = set()
    for route in routes:
        if route.matches(request.scope)[0] is not Match.NONE:
            methods |= set(getattr(route, "methods", None) or ())
    return sorted(methods | ({"HEAD", "OPTIONS"} if "GET" in methods else {"OPTIONS"}))


def _json(answer: ErrorAnswer) -> Response:
    return JsonResponse(answer.body, answer.status)
