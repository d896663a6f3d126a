"""A REST client on one kept connection, as scripts and consoles are: connecting anew costs more than the call."""

from __future__ import annotations

import http.client
import time
from collections.abc import Mapping

import orjson

from spark_connect_rt.errors import ConnectError
from tests.support.connect_rest import REBALANCING
from tests.support.worker_process import WorkerProcess

CREATED = 201
ASK_AGAIN_S = 0.005


class Caller:
    """One thread's."""

    def __init__(self, worker: WorkerProcess) -> None:
        """Connect with the first call."""
        self._connection = http.client.HTTPConnection("127.0.0.1", worker.rest_port, timeout=95)

    def call(self, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
        """Return status and body."""
        self._connection.request(method, path, body, {"Content-Type": "application/json"} if body else {})
        answer = self._connection.getresponse()
        return answer.status, answer.read()

    def create(self, name: str, config: Mapping[str, str], **more: str) -> float:
        """Create a connector; return how many ms it took until the answer 201, asking again at 409.

        Raises ConnectError at another answer.
        """
        body = orjson.dumps({"name": name, "config": dict(config), **more})
        begun = time.monotonic()
        while (answered := self.call("POST", "/connectors", body))[0] != CREATED:
            if answered[0] != REBALANCING:
                raise ConnectError(f"creating {name}: {answered}")
            time.sleep(ASK_AGAIN_S)
        return (time.monotonic() - begun) * 1000

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
