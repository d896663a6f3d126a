"""Iceberg's REST catalog in a JVM, and a door before it that checks logins and loses answers.

The server is `RESTCatalogServer` of Apache Iceberg's own test fixtures, over a JDBC catalog in SQLite. It checks no
login, so `CatalogDoor` does: bearer tokens, OAuth2 client credentials, and permissions.
"""

from __future__ import annotations

import http.client
import http.server
import json
import os
import re
import subprocess
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any, Self

import pyspark

from spark_connect_rt.app.quickstart.embedded_kafka import free_ports
from spark_connect_rt.base.cache import resolve_jars
from spark_connect_rt.engine.startup.java_home import Java
from spark_connect_rt.errors import StartupError

ICEBERG, JETTY = "1.11.0", "12.1.14"  # of iceberg-core 1.12.0, the jar of test classes is not published
COORDINATES = (
    f"org.apache.iceberg:iceberg-core:{ICEBERG}",
    f"org.apache.iceberg:iceberg-core:jar:tests:{ICEBERG}",
    f"org.apache.iceberg:iceberg-open-api:jar:test-fixtures:{ICEBERG}",
    f"org.eclipse.jetty.ee10:jetty-ee10-servlet:{JETTY}",
    f"org.eclipse.jetty.compression:jetty-compression-server:{JETTY}",
    f"org.eclipse.jetty.compression:jetty-compression-gzip:{JETTY}",
    "org.xerial:sqlite-jdbc:3.54.1.0",
)
MAIN_CLASS = "org.apache.iceberg.rest.RESTCatalogServer"
START_LIMIT_S = 120.0
EXIT_NOT_UP = 17
_HOP_BY_HOP = {"connection", "transfer-encoding", "content-length", "content-encoding", "host", "accept-encoding"}


class RestCatalogServer:
    """``with RestCatalogServer(folder, java) as server: server.url``. Tables lie below ``folder/warehouse``."""

    def __init__(self, folder: Path, java: Java) -> None:
        """Take an empty folder. Nothing is started yet."""
        self.folder = folder
        self._java = java
        self.port = free_ports(1)[0]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The address of the catalog, which asks for no login."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> Self:
        """Start and wait until it answers. Raises StartupError with its log."""
        hadoop = sorted((Path(pyspark.__file__).parent / "jars").glob("hadoop-client-*.jar"))
        jars = [*resolve_jars(COORDINATES), *hadoop]
        settings = {
            "CATALOG_REST_PORT": str(self.port),
            "CATALOG_URI": f"jdbc:sqlite:{self.folder / 'catalog.db'}",
            "CATALOG_WAREHOUSE": (self.folder / "warehouse").as_uri(),
            "CATALOG_CATALOG_NAME": "rest",
        }
        options = ["-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        command = [str(self._java.executable), *options, "-cp", os.pathsep.join(map(str, jars)), MAIN_CLASS]
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command, env={**os.environ, **settings}, stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )
        self._await_ready()
        return self

    def _await_ready(self) -> None:
        deadline = time.monotonic() + START_LIMIT_S
        while True:
            try:
                with urllib.request.urlopen(f"{self.url}/v1/config", timeout=5):
                    return
            except OSError:
                if self._process is None or self._process.poll() is not None or time.monotonic() > deadline:
                    log = (self.folder / "log").read_text(encoding="utf-8", errors="replace")[-2000:]
                    raise StartupError(f"the REST catalog did not come up: {log}", exit_code=EXIT_NOT_UP) from None
                time.sleep(0.1)

    def stop(self) -> None:
        """Kill the server. The catalog and its tables stay in the folder."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait(60)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


@dataclass
class DoorRules:
    """The rules of a door. A test may change them at any time.

    Attributes:
        clients: OAuth2 clients, id -> secret. Their tokens expire when ``revoke`` is called.
        tokens: bearer tokens that are valid now.
        refused: pattern of ``METHOD path`` that is refused to every user. Empty: everything is allowed.
        lost_answers: how many commits are passed on without answering the client.
        lost_requests: how many commits are not passed on, without an answer.
        away: whether every connection is closed without an answer.
    """

    clients: dict[str, str] = field(default_factory=dict)
    tokens: set[str] = field(default_factory=set)
    refused: str = ""
    lost_answers: int = 0
    lost_requests: int = 0
    away: bool = False
    commits: int = 0
    """How many commits arrived."""
    issued: int = 0
    """How many tokens were issued."""


class CatalogDoor:
    """``with CatalogDoor(server.url) as door: door.url``. Passes requests on to a catalog, as its rules allow."""

    def __init__(self, catalog: str, **rules: Any) -> None:
        """Take the address of a catalog, and the first rules."""
        self.rules = DoorRules(**rules)
        self._lock = threading.Lock()
        target = urllib.parse.urlsplit(catalog)
        door = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: object) -> None:
                pass

            def handle_one(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                door.serve(self, target.netloc, self.rfile.read(length))

            do_GET = do_POST = do_DELETE = do_HEAD = handle_one  # noqa: N815

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def url(self) -> str:
        """The address that clients use."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def revoke(self) -> None:
        """Let every token expire."""
        self.rules.tokens.clear()

    def serve(self, request: http.server.BaseHTTPRequestHandler, target: str, body: bytes) -> None:
        """Answer a request."""
        path = urllib.parse.urlsplit(request.path).path
        if self.rules.away:
            request.close_connection = True
            return
        if path == "/v1/oauth/tokens":
            self._issue(request, body)
            return
        if request.headers.get("Authorization", "").removeprefix("Bearer ") not in self.rules.tokens:
            _refuse(request, HTTPStatus.UNAUTHORIZED, "NotAuthorizedException", "the token is not valid")
            return
        if self.rules.refused and re.search(self.rules.refused, f"{request.command} {path}"):
            _refuse(request, HTTPStatus.FORBIDDEN, "ForbiddenException", "this principal may not do that")
            return
        is_commit = request.command == "POST" and re.search(r"/tables/[^/]+$", path) is not None
        loses_answer = False
        if is_commit:
            with self._lock:
                self.rules.commits += 1
                if self.rules.lost_requests:
                    self.rules.lost_requests -= 1
                    request.close_connection = True
                    return
                loses_answer = self.rules.lost_answers > 0
                self.rules.lost_answers -= loses_answer
        status, headers, answer = _passed_on(request, target, body)
        if loses_answer:
            request.close_connection = True
            return
        _answer(request, status, answer, headers)

    def _issue(self, request: http.server.BaseHTTPRequestHandler, body: bytes) -> None:
        fields = dict(urllib.parse.parse_qsl(body.decode()))
        client, secret = fields.get("client_id", ""), fields.get("client_secret", "")
        if not secret or self.rules.clients.get(client) != secret:
            error = {"error": "invalid_client", "error_description": "the client is not known"}
            _answer(request, HTTPStatus.UNAUTHORIZED, json.dumps(error).encode(), {})
            return
        with self._lock:
            self.rules.issued += 1
            token = f"token-{self.rules.issued}-of-{client}"
            self.rules.tokens.add(token)
        issued = {"access_token": token, "token_type": "bearer", "expires_in": 3600}
        _answer(request, HTTPStatus.OK, json.dumps(issued).encode(), {})


def _passed_on(
    request: http.server.BaseHTTPRequestHandler, target: str, body: bytes
) -> tuple[int, Mapping[str, str], bytes]:
    connection = http.client.HTTPConnection(target, timeout=60)
    try:
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _HOP_BY_HOP}
        connection.request(request.command, request.path, body or None, headers)
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()
    finally:
        connection.close()


def _refuse(request: http.server.BaseHTTPRequestHandler, status: HTTPStatus, kind: str, message: str) -> None:
    error = {"error": {"message": message, "type": kind, "code": status.value}}
    _answer(request, status, json.dumps(error).encode(), {})


def _answer(request: http.server.BaseHTTPRequestHandler, status: int, body: bytes, headers: Mapping[str, str]) -> None:
    request.send_response(status)
    for name, value in headers.items():
        if name.lower() not in {*_HOP_BY_HOP, "content-type", "date", "server"}:
            request.send_header(name, value)
    request.send_header("Content-Type", "application/json")
    request.send_header("Content-Length", str(len(body)))
    request.end_headers()
    if request.command != "HEAD":
        request.wfile.write(body)
