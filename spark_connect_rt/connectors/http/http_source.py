"""Records of a JSON API, which is polled (httpx).

Partition ``{"url": address without query}``; the offset holds the fields of ``http.offset.fields``, and within a pass
its next page. A page is requested again when not all of it was taken: at-least-once.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import httpx
import orjson
import pyarrow as pa

from spark_connect_rt.api.connector import SourceConnector, SourceOffset
from spark_connect_rt.api.data.schema import OPTIONAL_STRING
from spark_connect_rt.api.outside_checks import Finding, Level, OutsideCheck
from spark_connect_rt.api.records import SourceBatch, SourceRecord, altered
from spark_connect_rt.api.task import SourceTask
from spark_connect_rt.config.config_def import ConfigDef
from spark_connect_rt.connectors.http.http_connection import (
    PassingFailure,
    Patience,
    RefusedRequestError,
    http_client,
    page_address,
    request,
    shown,
)
from spark_connect_rt.connectors.http.http_headers import json_text, next_target
from spark_connect_rt.connectors.http.http_pages import (
    PagePosition,
    cursor_at,
    filled,
    pointed,
    records_at,
    reports_error,
    standing_of,
    taken,
)
from spark_connect_rt.connectors.http.http_settings import URL as URL_HTTP_SOURCE
from spark_connect_rt.connectors.http.http_settings import auth_problems
from spark_connect_rt.connectors.http.http_source_settings import (
    CONFIG,
    CURSOR,
    FOLLOWING,
    LINK,
    NEXT_TYPES,
    NONE,
    NUMBER,
    preview_obstacle,
)
from spark_connect_rt.connectors.record_times import timed
from spark_connect_rt.errors import ConnectError, DataError

# Checks that need the HTTP service: whether it answers, and accepts this worker's credentials.


URL = "http.url"


def first_answer(values: Mapping[str, Any]) -> list[Finding]:
    """Ask for the first page as the task does. Raises BadConfigError."""
    method: str = values["http.method"]
    begins = json.loads(values["http.offset.initial"] or "{}")
    address = filled(values[URL], begins)
    params = {name: filled(param, begins) for name, param in json.loads(values["http.params"] or "{}").items()}
    client = http_client(values)
    try:
        parts: dict[str, Any] = {"params": {name: param for name, param in params.items() if param}} if params else {}
        if values["http.body"] is not None:
            parts["content"] = filled(values["http.body"], begins)
        answer = request(client, method, address, time.time(), **parts)
    except PassingFailure as failure:
        return [Finding("host", URL, Level.PROBLEM, str(failure), f"correct {URL}, or check the service")]
    except RefusedRequestError as error:
        what = f"{method} {shown(address)} returns {error.status}" if error.status else str(error)
        check, change = ("credentials", "correct http.auth.*") if error.denied else ("host", f"correct {URL}")
        return [Finding(check, URL, Level.PROBLEM, what, change)]
    finally:
        client.close()
    what = f"{method} {shown(address)} returns {answer.status_code}"
    return [Finding("credentials", URL, Level.OK, what)]


log = logging.getLogger(__name__)
ADDRESS = "url"
_SHORT_WAIT_MS = 100


class HttpSourceConnector(SourceConnector):
    """Polls a JSON API over HTTP and turns each entry of the answer into a record.

    Reads one address of an HTTP service with one task.
    """

    def config_def(self) -> ConfigDef:
        """Return the declarations of this connector's settings."""
        return CONFIG

    def task_class(self) -> type[Any]:
        """Return the class of its tasks."""
        return HttpSourceTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """Return one configuration: an address is asked by one task."""
        return [dict(self.config)]

    def validate(self, config: Mapping[str, str]) -> Mapping[str, list[str]]:
        """Return the problems of the credentials' settings, by setting."""
        return auth_problems(config)

    def outside_checks(self, config: Mapping[str, str]) -> Sequence[OutsideCheck]:
        """Ask for the first page, as its task would; not by a POST that may change something."""
        values = CONFIG.parse(config)
        return () if preview_obstacle(values) else (lambda: first_answer(values),)

    def preview_obstacle(self, config: Mapping[str, str]) -> str | None:
        """Reject a POST that may change something at the service."""
        return preview_obstacle(CONFIG.parse(config))

    def alter_offsets(self, config: Mapping[str, str], offsets: Sequence[SourceOffset]) -> bool:
        """Check the new offsets. Raises ConnectError."""
        for partition, offset in offsets:
            if offset is None:
                continue
            if partition is None or partition.keys() != {ADDRESS}:
                raise ConnectError(f'the partition must be {{"{ADDRESS}": address}}')
            following = standing_of(offset, {}).next
            if isinstance(following, str) and config.get("http.pagination", LINK) in FOLLOWING:
                page_address(config.get(URL_HTTP_SOURCE.name) or partition[ADDRESS], following)
        return True


class HttpSourceTask(SourceTask):
    """Asks for page after page; between passes it waits."""

    clock: Callable[[], float] = staticmethod(time.time)

    def start(self, config: Mapping[str, str]) -> None:
        """Resume from the stored offset. Raises BadConfigError, ConnectError."""
        values = self._values = CONFIG.parse(config)
        obstacle = preview_obstacle(values)
        if obstacle and self.context.previewed:
            raise ConnectError(obstacle)
        self._url: str = values["http.url"]
        self._kind: str = values["http.pagination"]
        self._ends = {int(status) for status in values["http.pagination.end.statuses"]}
        self._partition = {ADDRESS: shown(self._url)}  # offsets may be shown, so they contain no secrets
        self._pointers = json.loads(values["http.offset.fields"] or "{}")
        self._params = json.loads(values["http.params"] or "{}")
        (stored,) = self.context.offset_reader.offsets([self._partition])
        self._standing = standing_of(stored, json.loads(values["http.offset.initial"] or "{}"))
        self._last_offset = self._standing.offset()
        if self._standing.next is not None and not isinstance(self._standing.next, NEXT_TYPES[self._kind]):
            log.warning("the stored page does not fit http.pagination=%s, starting a new pass", self._kind)
            self._standing = self._standing.begun_again()
        self._resumed = self._standing.next is not None
        self._longest = 0
        self._patience = Patience(values)
        self._client = http_client(values)
        self._due_s = 0.0

    @timed
    def poll(self) -> Sequence[SourceRecord | SourceBatch] | None:
        """Return the records of the next page, None when it is not time.

        Raises RefusedRequestError, ConnectError: the next page cannot be asked for; ExternalError: given up.
        """
        if self.clock() < self._due_s:
            return None
        try:
            polled = self._page()
        except PassingFailure as failure:
            wait_ms = self._patience.wait_ms(failure)
            log.warning("%s, retrying in %d ms", failure, wait_ms)
            self._wait(wait_ms)
            return None
        except RefusedRequestError as error:
            polled = self._after_refusal(error)
        self._patience.succeeded()
        self._resumed = False
        return polled

    def _page(self) -> list[SourceRecord | SourceBatch]:
        """Request the next page and process it. Raises PassingFailure, RefusedRequestError, ConnectError."""
        standing = self._standing
        answer = self._ask(standing)
        place = f"{shown(str(answer.url))} from offset {dict(standing.fields)}"  # a next page's address may hold keys
        try:
            tree, found = self._records_of(answer, behind_first=standing.next is not None)
        except (orjson.JSONDecodeError, DataError) as error:
            self.context.report_errant(place, error, answer.content)
            self._standing = standing.begun_again()  # the position after this page is unknown
            self._wait(self._values["http.poll.interval.ms"])
            return []
        following = self._following(tree, answer, bool(found))
        return self._taken(place, [*self._added_before(standing, len(found)), *found], following, len(found))

    def _after_refusal(self, error: RefusedRequestError) -> list[SourceRecord | SourceBatch]:
        """Return a batch that moves the offset if a refused page is the end of a pass, or too old.

        Raises the refusal.
        """
        standing = self._standing
        if standing.next is None or error.denied:
            raise error
        if error.status in self._ends and (self._kind == NUMBER or not self._resumed):
            log.debug("%s: the page before it was the last one", error)
            return self._over(standing.newest)
        if not self._resumed:
            raise error
        log.warning("%s: the stored page no longer exists, starting the same pass again", error)
        self._standing = standing.begun_again()
        self._wait(self._values["http.request.interval.ms"])
        return []

    def _ask(self, standing: PagePosition) -> httpx.Response:
        base = filled(self._url, standing.fields)
        address, params = base, {name: filled(param, standing.fields) for name, param in self._params.items()}
        if self._kind in FOLLOWING and isinstance(standing.next, str):
            address, params = page_address(base, standing.next), {}  # such an address is whole
        elif self._kind == NUMBER:
            params[self._values["http.page.param"]] = str(self._number(standing))
        elif self._kind == CURSOR and standing.next is not None:
            params[self._values["http.page.param"]] = str(standing.next)
        parts: dict[str, Any] = {"params": {name: param for name, param in params.items() if param}} if params else {}
        if self._values["http.body"] is not None:
            parts["content"] = filled(self._values["http.body"], standing.fields)
        return request(self._client, self._values["http.method"], address, self.clock(), **parts)

    def _number(self, standing: PagePosition) -> int:
        return int(self._values["http.page.start"] if standing.next is None else standing.next)

    def _records_of(self, answer: httpx.Response, *, behind_first: bool) -> tuple[Any, list[Any]]:
        """Return the body of an answer and its records. Raises JSONDecodeError, DataError: not understood."""
        if answer.status_code == httpx.codes.NO_CONTENT:
            return None, []
        tree = orjson.loads(json_text(answer.content, answer.charset_encoding))
        try:
            return tree, records_at(tree, self._values["http.records.pointer"])
        except DataError:
            if not behind_first or reports_error(tree):
                raise
            return None, []  # after the last page many services leave the array out

    def _added_before(self, standing: PagePosition, count: int) -> list[Any]:
        """Return the records that the previous page has got since it was read, with page numbers.

        A growing list fills its last page before it gets further ones, so the new records are on no page that is still
        to come. The previous page is read again if it may not have been full. That is so if it was shorter than another
        page, or if it was read before a restart. ``count``: records of this page.
        """
        self._longest = max(self._longest, count)
        if self._kind != NUMBER or standing.next is None or not count:
            return []
        if not self._resumed and standing.count >= self._longest:
            return []
        before = replace(standing, next=self._number(standing) - 1)
        try:
            answer = self._ask(before)
            _, found = self._records_of(answer, behind_first=True)
        except (RefusedRequestError, DataError, orjson.JSONDecodeError) as error:
            raise ConnectError(f"page {before.next}, which was read before, cannot be read again: {error}") from error
        return found[standing.count :]

    def _taken(
        self, place: str, found: Sequence[Any], following: str | int | None, count: int
    ) -> list[SourceRecord | SourceBatch]:
        before = self._standing
        newest, records = before.newest, list[SourceRecord]()
        for at, item in enumerate(found):
            try:
                newest = taken(newest, self._pointers, item, largest=self._values["http.offset.take"] == "max")
                records.append(self._record(item, before.offset()))
            except DataError as error:
                self.context.report_errant(f"{place}, record {at}", error, orjson.dumps(item))
        if following is None and not records:
            return self._over(newest)
        self._standing = before.after_page(newest, following, count)
        self._wait(self._values["http.poll.interval.ms" if following is None else "http.request.interval.ms"])
        if records:  # only after the last one the page is done
            self._last_offset = self._standing.offset()
            records[-1] = altered(records[-1], source_offset=self._last_offset)
        return [*records]

    def _over(self, newest: Mapping[str, Any]) -> list[SourceRecord | SourceBatch]:
        """End a pass whose last page has no record: an empty batch moves the offset, which would stay otherwise."""
        self._standing = PagePosition(newest, newest)
        self._wait(self._values["http.poll.interval.ms"])
        offset = self._standing.offset()
        if offset == self._last_offset:
            return []
        self._last_offset = offset
        return [SourceBatch(self._partition, offset, self._values["topic"], pa.array([], pa.string()))]

    def _record(self, tree: Any, offset: Mapping[str, Any]) -> SourceRecord:
        """Return the record of a tree. Raises DataError: it has no key."""
        topic = self._values["topic"]
        pointer, key = self._values["http.key.pointer"], None
        if pointer is not None:
            key = pointed(tree, pointer)
            key = key if key is None or isinstance(key, str) else orjson.dumps(key).decode()
        as_text = self._values["http.value"] == "text"
        value, schema = (orjson.dumps(tree).decode(), OPTIONAL_STRING) if as_text else (tree, None)
        return SourceRecord(
            self._partition, offset, topic, value, schema, key, None if pointer is None else OPTIONAL_STRING
        )

    def _following(self, tree: Any, answer: httpx.Response, has_records: bool) -> str | int | None:
        """Return the next page, None: this was the last. Raises ConnectError: not clear, or another server's."""
        if self._kind == NUMBER:
            return self._number(self._standing) + 1 if has_records else None
        if self._kind == NONE:
            return None
        try:
            if self._kind == LINK:
                found: str | int | None = next_target(answer.headers.get("Link"))
            else:
                found = cursor_at(tree, self._values["http.next.pointer"])
        except DataError as error:
            raise ConnectError(
                f"{shown(str(answer.url))}: it is not clear whether there is a next page: {error}"
            ) from error
        return found if found is None or self._kind == CURSOR else page_address(str(answer.url), str(found))

    def _wait(self, wait_ms: int) -> None:
        self._due_s = self.clock() + wait_ms / 1000

    def idle_wait_ms(self) -> int:
        """Return how long there is nothing to do, at most a moment: a stop must not wait."""
        return max(1, min(_SHORT_WAIT_MS, round((self._due_s - self.clock()) * 1000)))

    def stop(self) -> None:
        """Close the connections to the server."""
        if hasattr(self, "_client"):
            self._client.close()
