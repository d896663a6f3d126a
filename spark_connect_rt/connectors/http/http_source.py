"""Records of a JSON API, asked again and again (httpx).

Partition ``{"url": address without query}``; the offset holds what ``http.offset.fields`` names, and within a pass its
next page. A page is asked for again when not all of it was taken: at-least-once.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import httpx
import orjson

from spark_connect_rt.api.connector import SourceConnector, SourceOffset
from spark_connect_rt.api.data.schema import OPTIONAL_STRING
from spark_connect_rt.api.outside_checks import OutsideCheck
from spark_connect_rt.api.records import SourceRecord, altered
from spark_connect_rt.api.task import SourceTask
from spark_connect_rt.config.config_def import REQUIRED, ConfigDef, ConfigKey, Importance, Type
from spark_connect_rt.config.keys import number, text
from spark_connect_rt.config.validators import non_empty, one_of
from spark_connect_rt.connectors.http.http_checks import first_answer
from spark_connect_rt.connectors.http.http_connection import (
    CONNECTION,
    URL,
    PassingFailure,
    Patience,
    auth_problems,
    http_client,
    json_texts,
    request,
    same_origin,
    shown,
)
from spark_connect_rt.connectors.http.http_pages import (
    PagePosition,
    filled,
    next_of_link,
    optional_at,
    pointed,
    records_at,
    standing_of,
    taken,
)
from spark_connect_rt.connectors.record_times import timed
from spark_connect_rt.errors import ConnectError, DataError

log = logging.getLogger(__name__)
ADDRESS = "url"
_SHORT_WAIT_MS = 100
_NONE, _LINK, _NEXT, _CURSOR, _NUMBER = "none", "link", "next", "cursor", "page"


def _pointer(value: Any) -> str | None:
    return None if not value or str(value).startswith("/") else "must be empty or begin with /"


CONFIG = (
    ConfigDef(
        [
            URL,
            text("topic", "Topic the records go to.", REQUIRED, Importance.HIGH, non_empty),
            text("http.method", "GET or POST.", "GET", Importance.MEDIUM, one_of("GET", "POST")),
            text(
                "http.params",
                'Query, as JSON: {"since": "${offset.since}"}; an empty text is left out.',
                None,
                Importance.HIGH,
                json_texts,
            ),
            text("http.body", "Body of a POST; ${offset.name} as in http.params."),
            text(
                "http.records.pointer",
                "JSON pointer to the array of records, or the one record.",
                "",
                Importance.HIGH,
                _pointer,
            ),
            text("http.key.pointer", "JSON pointer, within a record, to its key.", None, Importance.MEDIUM, _pointer),
            text(
                "http.value",
                "tree: JSON values without a schema. text: the record's JSON as text.",
                "tree",
                Importance.MEDIUM,
                one_of("tree", "text"),
            ),
            text(
                "http.offset.fields",
                'What is kept of records, as JSON: {"since": "/updated_at"}.',
                None,
                Importance.HIGH,
                json_texts,
            ),
            text(
                "http.offset.initial",
                "The same before the first record, as JSON.",
                None,
                Importance.MEDIUM,
                json_texts,
            ),
            text(
                "http.offset.take",
                "last: of the last record. max: the largest.",
                "last",
                Importance.LOW,
                one_of("last", "max"),
            ),
            text(
                "http.pagination",
                "none, link (Link header), next (address in the body), cursor, page (number).",
                _NONE,
                Importance.HIGH,
                one_of(_NONE, _LINK, _NEXT, _CURSOR, _NUMBER),
            ),
            text(
                "http.next.pointer",
                "JSON pointer to the next page's address or cursor.",
                "/next",
                Importance.MEDIUM,
                _pointer,
            ),
            text("http.page.param", "Query parameter of the cursor or the page's number.", "page"),
            ConfigKey("http.page.start", Type.INT, 1, Importance.LOW, "Number of the first page."),
            number("http.poll.interval.ms", "Wait between two passes, ms.", 60_000, 0, Importance.HIGH),
            number("http.request.interval.ms", "Least time between two requests, ms.", 0, 0),
        ]
    )
    + CONNECTION
)


class HttpSourceConnector(SourceConnector):
    """Reads one address of an HTTP service with one task."""

    def config_def(self) -> ConfigDef:
        """Declare the settings."""
        return CONFIG

    def task_class(self) -> type[Any]:
        """Return the task."""
        return HttpSourceTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """Return one configuration: an address is asked by one task."""
        return [dict(self.config)]

    def validate(self, config: Mapping[str, str]) -> Mapping[str, list[str]]:
        """Return the problems of the credentials' settings, by setting."""
        return auth_problems(config)

    def outside_checks(self, config: Mapping[str, str]) -> Sequence[OutsideCheck]:
        """Ask for the first page, as its task would; not where that takes more than a GET."""
        values = CONFIG.parse(config)
        return (lambda: first_answer(values),) if values["http.method"].upper() == "GET" else ()

    def alter_offsets(self, config: Mapping[str, str], offsets: Sequence[SourceOffset]) -> bool:
        """Check the new offsets. Raises ConnectError."""
        for partition, offset in offsets:
            if offset is None:
                continue
            if partition is None or partition.keys() != {ADDRESS}:
                raise ConnectError(f'the partition must be {{"{ADDRESS}": address}}')
            standing_of(offset, {})
        return True


class HttpSourceTask(SourceTask):
    """Asks for page after page; between passes it waits."""

    clock: Callable[[], float] = staticmethod(time.time)

    def start(self, config: Mapping[str, str]) -> None:
        """Go on where the offset stands. Raises BadConfigError, ConnectError."""
        values = self._values = CONFIG.parse(config)
        self._url: str = values["http.url"]
        self._partition = {ADDRESS: shown(self._url)}  # offsets are no secrets
        self._pointers = json.loads(values["http.offset.fields"] or "{}")
        self._params = json.loads(values["http.params"] or "{}")
        (stored,) = self.context.offset_reader.offsets([self._partition])
        self._standing = standing_of(stored, json.loads(values["http.offset.initial"] or "{}"))
        self._patience = Patience(values)
        self._client = http_client(values)
        self._due_s = 0.0

    @timed
    def poll(self) -> Sequence[SourceRecord] | None:
        """Return the records of the next page, None when it is not time. Raises ConnectError: refused, or given up."""
        if self.clock() < self._due_s:
            return None
        standing = self._standing
        address = standing.next if isinstance(standing.next, str) and self._follows() else self._url
        try:
            answer = self._ask(standing, filled(address, standing.fields))
        except PassingFailure as failure:
            wait_ms = self._patience.wait_ms(failure)
            log.warning("%s; asked again in %d ms", failure, wait_ms)
            self._wait(wait_ms)
            return None
        self._patience.succeeded()
        return self._take(answer)

    def _follows(self) -> bool:
        return self._values["http.pagination"] in (_LINK, _NEXT)

    def _ask(self, standing: PagePosition, address: str) -> httpx.Response:
        params = {name: filled(one, standing.fields) for name, one in self._params.items()}
        if address != filled(self._url, standing.fields):
            params = {}  # a next page's address is whole
        elif self._values["http.pagination"] == _NUMBER:
            params[self._values["http.page.param"]] = str(standing.next or self._values["http.page.start"])
        elif self._values["http.pagination"] == _CURSOR and standing.next is not None:
            params[self._values["http.page.param"]] = str(standing.next)
        parts: dict[str, Any] = {"params": {name: one for name, one in params.items() if one}} if params else {}
        if self._values["http.body"] is not None:
            parts["content"] = filled(self._values["http.body"], standing.fields)
        return request(self._client, self._values["http.method"], address, self.clock(), **parts)

    def _take(self, answer: httpx.Response) -> list[SourceRecord]:
        before = self._standing
        place = f"{shown(str(answer.url))} from offset {dict(before.fields)}"  # a next page's address may hold keys
        try:
            tree = orjson.loads(answer.content)
            found = records_at(tree, self._values["http.records.pointer"])
        except (orjson.JSONDecodeError, DataError) as error:
            self.context.report_errant(place, error, answer.content)
            self._standing = before.after_page(before.newest, None)
            self._wait(self._values["http.poll.interval.ms"])
            return []
        newest, records = before.newest, []
        for at, one in enumerate(found):
            try:
                newest = taken(newest, self._pointers, one, largest=self._values["http.offset.take"] == "max")
                records.append(self._record(one, before.offset()))
            except DataError as error:
                self.context.report_errant(f"{place}, record {at}", error, orjson.dumps(one))
        self._standing = before.after_page(newest, self._following(tree, answer, bool(found)))
        passed = self._standing.next is None
        self._wait(self._values["http.poll.interval.ms" if passed else "http.request.interval.ms"])
        if records:  # only behind the last one the page is done
            records[-1] = altered(records[-1], source_offset=self._standing.offset())
        return records

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
        """Return the next page, None when this was the last. Raises ConnectError: it is another server's."""
        kind, url = self._values["http.pagination"], str(answer.url)
        if kind == _NUMBER:
            return int(self._standing.next or self._values["http.page.start"]) + 1 if has_records else None
        if kind == _NONE:
            return None
        if kind == _LINK:
            found = next_of_link(answer.headers.get("Link"), url)
        else:
            found = optional_at(tree, self._values["http.next.pointer"]) or None
            if found is not None and kind == _NEXT:
                found = str(httpx.URL(url).join(str(found)))
        if found is not None and kind in (_LINK, _NEXT) and not same_origin(found, self._url):
            raise ConnectError(f"the next page {shown(found)} is on another server than {shown(self._url)}: not asked")
        return None if found is None else found if isinstance(found, str | int) else str(found)

    def _wait(self, wait_ms: int) -> None:
        self._due_s = self.clock() + wait_ms / 1000

    def idle_wait_ms(self) -> int:
        """Return how long there is nothing to do, at most a moment: a stop must not wait."""
        return max(1, min(_SHORT_WAIT_MS, round((self._due_s - self.clock()) * 1000)))

    def stop(self) -> None:
        """Close the connections."""
        if hasattr(self, "_client"):
            self._client.close()
