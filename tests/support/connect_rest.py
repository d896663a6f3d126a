"""A small client of the Connect REST API for tests and benchmarks; it speaks to Java's worker and to ours.

It hides nothing: every call returns the status, the headers and the raw body. It retries only what a client
must: 409 while the group rebalances.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Self
from urllib.parse import quote

import httpx
import orjson

from spark_connect_rt.errors import ConnectError, TimedOutError

REBALANCING = 409


@cache
def _tls() -> ssl.SSLContext:
    """Return one for all probes: it takes 30 ms to make, and they come every few."""
    return httpx.create_ssl_context(trust_env=False)


@dataclass(frozen=True, slots=True)
class RestAnswer:
    """The answer to one request."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """Return the parsed body, None when it is empty."""
        return orjson.loads(self.body) if self.body else None


class ConnectRest:
    """One worker's REST API at ``url``."""

    def __init__(self, url: str, timeout_s: float = 95.0) -> None:
        self.url = url.rstrip("/")
        # Proxies of the environment must not come between a test and a loopback port.
        # A connection for each request: Jetty closes a kept one after some errors, just as the next request goes out.
        limits = httpx.Limits(max_keepalive_connections=0)
        self._client = httpx.Client(timeout=timeout_s, trust_env=False, limits=limits)

    def request(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> RestAnswer:
        """Send one request; ``body`` goes as JSON unless it is bytes already."""
        content = body if isinstance(body, bytes) or body is None else orjson.dumps(body)
        typed = {"Content-Type": "application/json"} if content is not None else {}
        answer = self._client.request(method, self.url + path, content=content, headers={**typed, **(headers or {})})
        return RestAnswer(answer.status_code, dict(answer.headers), answer.content)

    def probe(self, path: str = "/") -> bool:
        """Return whether ``GET path`` answers 200 now; also when closed."""
        try:
            answer = httpx.get(self.url + path, timeout=5.0, trust_env=False, verify=_tls())
            return answer.status_code == httpx.codes.OK
        except httpx.HTTPError:
            return False

    def settled(
        self,
        method: str,
        path: str,
        body: Any = None,
        limit_s: float = 180.0,
        headers: Mapping[str, str] | None = None,
    ) -> RestAnswer:
        """Send a request, again while it is answered 409 for a rebalance; return the last answer."""
        deadline = time.monotonic() + limit_s
        while True:
            answer = self.request(method, path, body, headers)
            conflict = answer.status == REBALANCING and b"already exists" not in answer.body
            if not conflict or time.monotonic() > deadline:
                return answer
            time.sleep(0.05)

    def create(self, name: str, config: Mapping[str, str]) -> RestAnswer:
        """Create a connector. Raises ConnectError with the answer unless it is 201."""
        answer = self.settled("POST", "/connectors", {"name": name, "config": dict(config)})
        if answer.status != httpx.codes.CREATED:
            raise ConnectError(f"creating {name} at {self.url}: {answer.status} {answer.body!r}")
        return answer

    def delete(self, name: str) -> RestAnswer:
        """Delete a connector. Raises ConnectError with the answer unless it is 204."""
        answer = self.settled("DELETE", f"/connectors/{quote(name, safe='')}")
        if answer.status != httpx.codes.NO_CONTENT:
            raise ConnectError(f"deleting {name} at {self.url}: {answer.status} {answer.body!r}")
        return answer

    def states(self, name: str) -> tuple[str, list[str]]:
        """Return the connector's state and its tasks' states; ``("", [])`` while there is no status."""
        answer = self.request("GET", f"/connectors/{quote(name, safe='')}/status")
        if answer.status != httpx.codes.OK:
            return "", []
        status = answer.json()
        return status["connector"]["state"], [task["state"] for task in status["tasks"]]

    def await_states(self, name: str, connector: str, tasks: list[str], limit_s: float = 180.0) -> None:
        """Wait until connector and tasks are in these states. Raises TimedOutError naming the last seen."""
        self.until(lambda: self.states(name), (connector, tasks), limit_s, f"states of {name}")

    def until(self, read: Callable[[], Any], wanted: Any, limit_s: float, what: str) -> None:
        """Wait until ``read()`` equals ``wanted``. Raises TimedOutError naming the last seen value."""
        deadline = time.monotonic() + limit_s
        while (seen := read()) != wanted:
            if time.monotonic() > deadline:
                raise TimedOutError(f"{what} at {self.url}: {seen!r} after {limit_s:.0f} s, not {wanted!r}")
            time.sleep(0.05)

    def close(self) -> None:
        """Close the connections to the worker."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
