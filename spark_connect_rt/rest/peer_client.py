"""HTTP between workers over httpx (Java ``RestClient``)."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from spark_connect_rt.errors import RetriableError, TimedOutError, UnreachableError
from spark_connect_rt.group.peers import PeerAnswer

if TYPE_CHECKING:
    import httpx

CONNECT_LIMIT_S = 10.0


class HttpPeerClient:
    """A PeerClient. httpx is imported with the first request: a worker alone never pays for it."""

    def __init__(self, tls: Callable[[], ssl.SSLContext | None] = lambda: None) -> None:
        """Take what makes the context for https; None: the system's authorities are trusted."""
        self._tls = tls
        self._lock = threading.Lock()
        self._client: httpx.Client | None = None

    def request(
        self,
        method: str,
        url: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_ms: int = 90_000,
    ) -> PeerAnswer:
        """See ``group.peers.PeerClient.request``."""
        import httpx

        timeout = httpx.Timeout(timeout_ms / 1000, connect=min(CONNECT_LIMIT_S, timeout_ms / 1000))
        try:
            answer = self._opened().request(method, url, content=body, headers=dict(headers or {}), timeout=timeout)
        except httpx.ConnectTimeout as error:
            raise UnreachableError(f"{method} {url}: no connection within {CONNECT_LIMIT_S:.0f} s") from error
        except httpx.ConnectError as error:
            raise UnreachableError(f"{method} {url}: {error}") from error
        except httpx.TimeoutException as error:
            raise TimedOutError(f"{method} {url}: no answer within {timeout_ms} ms") from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise RetriableError(f"{method} {url}: {error}") from error
        return PeerAnswer(answer.status_code, answer.content, dict(answer.headers))

    def close(self) -> None:
        """See ``group.peers.PeerClient.close``."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def _opened(self) -> httpx.Client:
        import httpx

        with self._lock:
            if self._client is None:
                # Proxies of the environment are for the way out, not for the way between workers.
                self._client = httpx.Client(verify=self._tls() or True, trust_env=False, follow_redirects=False)
            return self._client
