"""Hands task configurations to the leader over HTTP, signed, on a thread of its own (KIP-507)."""

from __future__ import annotations

import json
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from spark_connect_rt.base.concurrency import Threads
from spark_connect_rt.base.serial_thread import SerialThread
from spark_connect_rt.base.supervision import Report
from spark_connect_rt.errors import ConnectError
from spark_connect_rt.group.internal_request import sign
from spark_connect_rt.group.peers import PeerClient

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class HandedIn:
    """How one request ended; ``error`` None: the leader took it."""

    connector: str
    error: str | None


class Forwarding:
    """Sends in order; answers are collected for the tick."""

    def __init__(
        self, peers: PeerClient, algorithm: str, wakeup: Callable[[], None], threads: Threads, report: Report
    ) -> None:
        self._peers = peers
        self._algorithm = algorithm
        self._wakeup = wakeup
        self._answers: deque[HandedIn] = deque()
        self._thread = SerialThread("forward-to-leader", threads, report)

    def hand_in(self, leader_url: str, connector: str, configs: Sequence[Mapping[str, str]], key: bytes | None) -> None:
        """Queue one POST /connectors/<c>/tasks. ``key`` None: unsigned (before ``sessioned``)."""
        self._thread.submit(lambda: self._send(leader_url, connector, configs, key))

    def answers(self) -> list[HandedIn]:
        """Return and forget the answers so far."""
        return [self._answers.popleft() for _ in range(len(self._answers))]

    def close(self) -> None:
        """End after what is queued."""
        self._thread.close()

    def _send(self, leader_url: str, connector: str, configs: Sequence[Mapping[str, str]], key: bytes | None) -> None:
        error: str | None = None
        try:
            body = json.dumps([dict(config) for config in configs], separators=(",", ":")).encode()
            headers = {"Content-Type": "application/json"}
            if key is not None:
                headers |= sign(key, self._algorithm, body)
            url = f"{leader_url.rstrip('/')}/connectors/{quote(connector, safe='')}/tasks"
            answer = self._peers.request("POST", url, body, headers)
            if answer.status >= 300:
                error = f"the leader {leader_url} answered {answer.status}: {answer.body[:300]!r}"
        except ConnectError as failure:
            error = str(failure)
        except Exception as failure:
            log.exception("connector=%s task configs cannot be sent to %s", connector, leader_url)
            error = f"{type(failure).__name__}: {failure}"
        self._answers.append(HandedIn(connector, error))
        self._wakeup()
