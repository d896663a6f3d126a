"""Reads between workers over HTTP: signed where the group has a key, in parallel, each with a short limit.

Owns who is in the group as far as reads go: the leader knows it from the members' metadata, others ask it. Where no
leader says it (a Java worker leads), those that report statuses are taken for the group.
"""

from __future__ import annotations

import json
import logging
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from spark_connect_rt.base.json_text import JsonShape, decode_json, decode_quick_json
from spark_connect_rt.errors import ConnectError, NotFoundError, RetriableError, TimedOutError, UnreachableError
from spark_connect_rt.group.peers import PeerAnswer, PeerClient, sign
from spark_connect_rt.runtime.herder.herder_api import HerderViews
from spark_connect_rt.runtime.values import WorkerStanding

if TYPE_CHECKING:
    import httpx


# Reads of what only the memory of other workers holds: rates, courses, events, lines of logs.
#
# Every part of the management API serves its reads here under a name, and asks the group for them by that name. A
# worker that is away, too slow or of another kind is named with the reason; it never keeps the others' answers back.


OURS, JAVA, UNKNOWN = "spark-connect-rt", "java", "unknown"
ASK_LIMIT_MS = 1_000

Serve = Callable[[Mapping[str, Any]], Any]
"""Takes the arguments of a read, returns what JSON can hold: dicts, lists, texts, numbers. Any thread; soon."""


@dataclass(frozen=True, slots=True)
class GroupWorker:
    """A member of the group, by its advertised address."""

    worker_id: str  # host:port
    url: str  # with a trailing slash
    leader: bool = False
    this: bool = False


@dataclass(frozen=True, slots=True)
class WorkerAnswer:
    """One worker's answer. ``why`` is empty if it did, and else says in one line why not."""

    worker: GroupWorker
    answer: Any = None
    why: str = ""
    runtime: str = OURS  # spark-connect-rt, java, or unknown


@dataclass(frozen=True, slots=True)
class Unanswered(JsonShape):
    """A worker whose part is missing in an answer, and why."""

    worker_id: str
    why: str


def unanswered(answers: Sequence[WorkerAnswer]) -> tuple[Unanswered, ...]:
    """Return whose part is missing."""
    return tuple(Unanswered(answer.worker.worker_id, answer.why) for answer in answers if answer.why)


class GroupReads(Protocol):
    """One worker's end of the reads between workers. Any thread."""

    def serve(self, what: str, read: Serve) -> None:
        """Answer reads called ``what`` (letters, digits, - and .) from now on, of this worker and of others."""

    def answer(self, what: str, arguments: Mapping[str, Any]) -> Any:
        """Return what this worker answers. Raises NotFoundError: it serves no such read."""

    def workers(self) -> Sequence[GroupWorker]:
        """Return the members of the group, this worker first; may ask the leader, for at most ``ASK_LIMIT_MS``."""

    def ask(
        self,
        what: str,
        arguments: Mapping[str, Any] | None = None,
        limit_ms: int = ASK_LIMIT_MS,
        only: Collection[str] | None = None,
    ) -> Sequence[WorkerAnswer]:
        """Ask every worker at once, this one too; return within ``limit_ms`` (and a first lookup of the members).

        Blocks: not for the thread of the REST server. ``only``: these workers, by worker id.
        """


PATH = "internal/group-reads"
MEMBERS = "members"
THREADS = 32
OPEN_MOST = 3  # open requests to one worker; further ones are not sent to it
MEMBERS_AGAIN_S = 5.0  # after the leader did not say who they are

log = logging.getLogger(__name__)


class HttpGroupReads:
    """Implements rest.peers.GroupReads over HTTP. Any thread."""

    def __init__(
        self,
        views: HerderViews,
        peers: PeerClient | None,
        algorithm: str = "HmacSHA256",
        reporting: Callable[[], Collection[str]] = tuple,
    ) -> None:
        """Take the worker's views and its way to others.

        Args:
            views: of this worker.
            peers: None: it is alone.
            algorithm: of signatures.
            reporting: returns the ids of workers that report statuses.
        """
        self._views = views
        self._peers = peers
        self._algorithm = algorithm
        self._reporting = reporting
        self._served: dict[str, Serve] = {MEMBERS: lambda _: list(self._views.standing().member_urls)}
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="group-reads")
        self._lock = threading.Lock()
        self._open: Counter[str] = Counter()
        self._members: tuple[tuple[str | None, int], tuple[str, ...]] | None = None  # leader, generation -> URLs
        self._members_again_s = 0.0

    def start(self) -> None:
        """Nothing is to be started: threads come with the first read."""

    def stop(self) -> None:
        """Ask no worker any more. Requests in flight end at their limit."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def serve(self, what: str, read: Serve) -> None:
        """Answer reads called ``what`` with this function from now on."""
        self._served[what] = read

    def answer(self, what: str, arguments: Mapping[str, Any]) -> Any:
        """Return this worker's answer. Raises NotFoundError if it does not serve such a read."""
        read = self._served.get(what)
        if read is None:
            raise NotFoundError(f"this worker does not support the read {what}")
        return read(arguments)

    def workers(self) -> Sequence[GroupWorker]:
        """Return the members of the group, this worker first; may ask the leader."""
        standing = self._views.standing()
        urls = {} if self._peers is None else {_id_of(url): url for url in self._urls(standing)}
        urls.pop(standing.worker_id, None)
        leader = _id_of(standing.leader_url or "")
        others = [GroupWorker(worker_id, url, worker_id == leader) for worker_id, url in sorted(urls.items())]
        return [GroupWorker(standing.worker_id, standing.worker_url, standing.is_leader, this=True), *others]

    def ask(
        self,
        what: str,
        arguments: Mapping[str, Any] | None = None,
        limit_ms: int = ASK_LIMIT_MS,
        only: Collection[str] | None = None,
    ) -> Sequence[WorkerAnswer]:
        """Ask every worker at once, or those in ``only``; return all answers within ``limit_ms``. Blocks."""
        wanted = arguments or {}
        body = json.dumps(wanted, separators=(",", ":")).encode()
        asked = [worker for worker in self.workers() if only is None or worker.worker_id in only]
        futures = {worker: self._begin(worker, what, body, limit_ms) for worker in asked if not worker.this}
        here = {worker: self._here(worker, what, wanted) for worker in asked if worker.this}
        wait([future for future in futures.values() if isinstance(future, Future)], timeout=limit_ms / 1000)
        return [here.get(worker) or _outcome(worker, futures[worker], limit_ms) for worker in asked]

    def _here(self, worker: GroupWorker, what: str, arguments: Mapping[str, Any]) -> WorkerAnswer:
        try:
            return WorkerAnswer(worker, self.answer(what, arguments))
        except ConnectError as error:
            return WorkerAnswer(worker, why=str(error))
        except Exception as error:
            log.exception("the read %s failed", what)
            return WorkerAnswer(worker, why=f"{type(error).__name__}: {error}")

    def _begin(self, worker: GroupWorker, what: str, body: bytes, limit_ms: int) -> Future[WorkerAnswer] | WorkerAnswer:
        with self._lock:
            if self._open[worker.worker_id] >= OPEN_MOST:
                return WorkerAnswer(worker, why="it has not answered earlier requests yet", runtime=UNKNOWN)
            self._open[worker.worker_id] += 1
        try:
            return self._pool.submit(self._send, worker, what, body, limit_ms)
        except RuntimeError:  # the pool is shut down
            self._closed(worker)
            return WorkerAnswer(worker, why="this worker is stopping", runtime=UNKNOWN)

    def _closed(self, worker: GroupWorker) -> None:
        with self._lock:
            self._open[worker.worker_id] -= 1
            self._open += Counter()  # none of workers that are gone

    def _send(self, worker: GroupWorker, what: str, body: bytes, limit_ms: int) -> WorkerAnswer:
        assert self._peers is not None  # else there are no others
        try:
            headers = {"Content-Type": "application/json"}
            key = self._views.internal_key()
            if key.required and key.key is not None:
                headers |= sign(key.key, self._algorithm, body)
            answer = self._peers.request("POST", f"{worker.url}{PATH}/{what}", body, headers, timeout_ms=limit_ms)
            return _read(worker, answer, self._views.standing().own_group)
        except ConnectError as error:
            return WorkerAnswer(worker, why=str(error), runtime=UNKNOWN)
        except Exception as error:
            log.exception("worker=%s could not be asked for %s", worker.worker_id, what)
            return WorkerAnswer(worker, why=f"{type(error).__name__}: {error}", runtime=UNKNOWN)
        finally:
            self._closed(worker)

    def _urls(self, standing: WorkerStanding) -> Collection[str]:
        """Return the members' URLs; where they are unknown, those known before and those that report statuses."""
        if standing.is_leader:
            self._members = ((standing.leader_url, standing.generation), standing.member_urls)
            return standing.member_urls
        now = (standing.leader_url, standing.generation)
        known = self._members
        if known is not None and known[0] == now:
            return known[1]
        if standing.leader_url and time.monotonic() >= self._members_again_s:
            leader = GroupWorker(_id_of(standing.leader_url), f"{standing.leader_url.rstrip('/')}/", leader=True)
            found = self._begin(leader, MEMBERS, b"{}", ASK_LIMIT_MS)
            answer = _outcome(leader, found, ASK_LIMIT_MS, wait_s=ASK_LIMIT_MS / 1000)
            if not answer.why and answer.answer:
                urls = tuple(map(str, answer.answer))
                self._members = (now, urls)
                return urls
            self._members_again_s = time.monotonic() + MEMBERS_AGAIN_S
        scheme = urlsplit(standing.worker_url).scheme
        leaders = (standing.leader_url,) if standing.leader_url else ()
        return {*(f"{scheme}://{worker_id}/" for worker_id in self._reporting()), *leaders}


def _id_of(url: str) -> str:
    return urlsplit(url).netloc


def _outcome(
    worker: GroupWorker, found: Future[WorkerAnswer] | WorkerAnswer, limit_ms: int, wait_s: float = 0.0
) -> WorkerAnswer:
    if isinstance(found, WorkerAnswer):
        return found
    try:
        return found.result(wait_s)
    except Exception:  # noqa: BLE001 - it is late, or dropped at this worker's end
        return WorkerAnswer(worker, why=f"no answer within {limit_ms} ms", runtime=UNKNOWN)


def _read(worker: GroupWorker, answer: PeerAnswer, own_group: bool) -> WorkerAnswer:
    """Return what a worker's answer says. Pure."""
    if answer.status == 404:
        if _is_ours(answer) or own_group:
            return WorkerAnswer(worker, why="its version does not support this")
        return WorkerAnswer(worker, why="it is a Java worker, which has no management API", runtime=JAVA)
    if answer.status != 200:
        return WorkerAnswer(worker, why=f"it answered {answer.status}{_words(answer)}", runtime=UNKNOWN)
    try:
        return WorkerAnswer(worker, decode_quick_json(answer.body)["answer"], runtime=OURS)
    except (ConnectError, LookupError, TypeError) as error:
        return WorkerAnswer(worker, why=f"its answer cannot be read: {error}", runtime=UNKNOWN)


def _is_ours(answer: PeerAnswer) -> bool:
    """Return whether a refusal is one of ours: Java's have no code."""
    return b'"code":"CRT-' in answer.body


def _words(answer: PeerAnswer) -> str:
    try:
        return f": {str(decode_json(answer.body)['message'])[:200]}"
    except (ConnectError, LookupError, TypeError):
        return ""


# HTTP between workers over httpx (Java ``RestClient``).


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
        """Return the answer. Raises UnreachableError (nothing was sent), RetriableError, TimedOutError."""
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
        """Close all connections to other workers."""
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
