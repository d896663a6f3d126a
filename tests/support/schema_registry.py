"""A small Schema Registry for tests: the documented REST API over real HTTP, kept in memory.

It files schemas by subject, version and id, knows references, and rejects the same requests as a registry. It neither
parses schemas nor checks compatibility. Not a product: Confluent's own registry is not in the package registries.
"""

from __future__ import annotations

import base64
import json
import re
import ssl
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import unquote, urlsplit

Answer = tuple[int, Any]
_SUBJECT_UNKNOWN = (404, {"error_code": 40401, "message": "Subject not found."})
_VERSION_UNKNOWN = (404, {"error_code": 40402, "message": "Version not found."})
_SCHEMA_UNKNOWN = (404, {"error_code": 40403, "message": "Schema not found"})
_UNAUTHORIZED = (401, {"error_code": 401, "message": "Unauthorized"})


@dataclass
class Shelf:
    """The content of the registry; one id for one schema, whatever its subjects."""

    ids: dict[str, int] = field(default_factory=dict)
    schemas: dict[int, dict[str, Any]] = field(default_factory=dict)
    subjects: dict[str, list[int]] = field(default_factory=dict)

    def register(self, subject: str, given: Mapping[str, Any]) -> Answer:
        """File a schema; the same once more is the same version."""
        if subject in self.refusing:
            return 409, {"error_code": 409, "message": f"Schema being registered is incompatible: {subject}"}
        schema = _schema(given)
        number = self.ids.setdefault(_text(schema), len(self.ids) + 1)
        self.schemas[number] = schema
        versions = self.subjects.setdefault(subject, [])
        if number not in versions:
            versions.append(number)
        return 200, {"id": number}

    refusing: set[str] = field(default_factory=set)

    def look_up(self, subject: str, given: Mapping[str, Any]) -> Answer:
        """Answer where a schema is filed under a subject."""
        if subject not in self.subjects:
            return _SUBJECT_UNKNOWN
        number = self.ids.get(_text(_schema(given)))
        versions = self.subjects[subject]
        return self._filed(subject, versions.index(number)) if number in versions else _SCHEMA_UNKNOWN

    def version(self, subject: str, version: str) -> Answer:
        """Answer one version of a subject; ``latest`` is the last."""
        versions = self.subjects.get(subject)
        if versions is None:
            return _SUBJECT_UNKNOWN
        at = len(versions) - 1 if version == "latest" else int(version) - 1
        return self._filed(subject, at) if 0 <= at < len(versions) else _VERSION_UNKNOWN

    def by_id(self, number: int) -> Answer:
        """Answer a request for one schema."""
        return (200, self.schemas[number]) if number in self.schemas else _SCHEMA_UNKNOWN

    def _filed(self, subject: str, at: int) -> Answer:
        number = self.subjects[subject][at]
        return 200, {"subject": subject, "version": at + 1, "id": number, **self.schemas[number]}


def _schema(given: Mapping[str, Any]) -> dict[str, Any]:
    kept = {name: given[name] for name in ("schemaType", "schema", "references") if given.get(name)}
    if kept.get("schemaType") == "AVRO":
        del kept["schemaType"]
    return kept


def _text(schema: Mapping[str, Any]) -> str:
    return json.dumps(schema, sort_keys=True)


class SchemaRegistry:
    """``with SchemaRegistry() as registry: registry.url``; a free loopback port.

    ``user`` is ``name:password``, ``token`` a bearer token: without the right one requests are answered 401. ``tls``: a
    server's context; the address is https then. ``failing``: the status of every answer until it is None again.
    ``asked``: (method, path) of each request.
    """

    def __init__(self, user: str | None = None, token: str | None = None, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        self.shelf = Shelf()
        self.failing: int | None = None
        self.asked: list[tuple[str, str]] = []
        self._wanted = _authorization(user, token)
        self._server: ThreadingHTTPServer | None = None
        self._port = 0

    @property
    def url(self) -> str:
        """Return the address of the registry."""
        return f"{'http' if self._tls is None else 'https'}://127.0.0.1:{self._port}"

    def start(self) -> Self:
        """Listen, on the port of last time if there was one."""
        self._server = ThreadingHTTPServer(("127.0.0.1", self._port), _handler(self._answer))
        self._server.daemon_threads = True
        if self._tls is not None:
            self._server.socket = self._tls.wrap_socket(self._server.socket, server_side=True)
        self._port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.05,), name="schema-registry", daemon=True).start()
        return self

    def stop(self) -> None:
        """Stop answering; the registered schemas stay."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def text_of(self, subject: str, version: str = "latest") -> str:
        """Return a schema as it was registered. Raises KeyError: there is none."""
        return str(self.shelf.version(subject, version)[1]["schema"])

    def _answer(self, method: str, path: str, authorization: str | None, body: Any) -> Answer | None:
        if self._server is None:  # a connection that was open when it stopped
            return None
        self.asked.append((method, path))
        if self.failing is not None:
            return self.failing, {"error_code": self.failing, "message": "out of order"}
        if self._wanted is not None and authorization != self._wanted:
            return _UNAUTHORIZED
        parts = [unquote(part) for part in urlsplit(path).path.strip("/").split("/")]
        for verb, pattern, answer in _ROUTES:
            found = re.fullmatch(pattern, "/".join("*" if at % 2 else part for at, part in enumerate(parts)))
            if verb == method and found:
                return answer(self.shelf, parts, body)
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}


_ROUTES: tuple[tuple[str, str, Callable[[Shelf, list[str], Any], Answer]], ...] = (
    ("GET", "subjects", lambda shelf, _, __: (200, sorted(shelf.subjects))),
    ("POST", r"subjects/\*", lambda shelf, parts, body: shelf.look_up(parts[1], body)),
    ("POST", r"subjects/\*/versions", lambda shelf, parts, body: shelf.register(parts[1], body)),
    ("GET", r"subjects/\*/versions/\*", lambda shelf, parts, _: shelf.version(parts[1], parts[3])),
    ("GET", r"schemas/\*/.+", lambda shelf, parts, _: shelf.by_id(int(parts[2]))),
)


def _authorization(user: str | None, token: str | None) -> str | None:
    if token is not None:
        return f"Bearer {token}"
    return None if user is None else f"Basic {base64.b64encode(user.encode()).decode()}"


def _handler(answer: Callable[[str, str, str | None, Any], Answer | None]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._serve()

        def do_POST(self) -> None:
            self._serve()

        def _serve(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            if (answered := answer(self.command, self.path, self.headers.get("Authorization"), body)) is None:
                self.close_connection = True
                return
            status, told = answered
            data = json.dumps(told).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *arguments: Any) -> None:
            """Print no line for a request."""

    return Handler
