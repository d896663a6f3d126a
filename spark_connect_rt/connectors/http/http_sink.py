"""Records sent to a web service, one request a record or a batch (httpx). At-least-once.

A request without a good answer is made again later with the same records (RetriableError, waiting as the server asks).
A service that stays away until the retries are used up, redirects, and refusals that are about credentials or address
fail the task (ExternalError). Any other refusal is one record's fault, found by halving the batch.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any
from urllib.parse import quote

from spark_connect_rt.api.connector import SinkConnector
from spark_connect_rt.api.data.java_text import java_text
from spark_connect_rt.api.records import SinkRecord
from spark_connect_rt.api.task import SinkTask
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.config.config_def import ConfigDef, Importance
from spark_connect_rt.config.settings_group import number, text
from spark_connect_rt.config.validators import one_of
from spark_connect_rt.connectors.http.http_connection import (
    PassingFailure,
    Patience,
    RefusedRequestError,
    http_client,
    request,
)
from spark_connect_rt.connectors.http.http_headers import charset_of
from spark_connect_rt.connectors.http.http_settings import CONNECTION, URL, auth_problems
from spark_connect_rt.errors import DataError, ExternalError, RetriableError
from spark_connect_rt.records.converters.json_bytes import dump_json
from spark_connect_rt.records.converters.json_values import JsonSettings, to_tree

Call = tuple[str, str]
"""(method, address), or (_REFUSE, why the record is not sent)."""

_METHODS = ("POST", "PUT", "PATCH")
_IGNORE, _DELETE, _REFUSE = "ignore", "delete", "refuse"
_NOT_FOUND = (404, 410)
_OF_SETTINGS = (402, 405, 406, 415, 421, 426, 428)
"""Statuses that any other record would get, too: they concern the address, method, content type or contract."""
_NO_SEGMENT = ("", ".", "..")
"""Invalid keys in a path: RFC 3986 5.2.4 removes dots, and many services remove empty segments."""
_PLACE = re.compile(r"\$\{(topic|key|partition|offset|timestamp|value)\}")


def _content_type(value: Any) -> str | None:
    try:
        charset_of(str(value or ""))
    except DataError as error:
        return str(error)
    return None


CONFIG = (
    ConfigDef(
        [
            URL,
            text("http.method", "POST, PUT or PATCH.", "POST", Importance.HIGH, one_of(*_METHODS)),
            text(
                "http.body.template",
                "Body of a record, with ${value}, ${key} (as JSON), ${topic}, ${partition}, ${offset} and "
                "${timestamp}.",
                "${value}",
                Importance.MEDIUM,
            ),
            text(
                "http.content.type",
                "Content-Type of the body. The body is encoded in its charset, or in UTF-8 if it has none.",
                "application/json",
                check=_content_type,
            ),
            number("http.batch.records", "Most records of a request.", 1, 1, Importance.HIGH),
            text("http.batch.prefix", "Text before the records of a batch.", "[", trimmed=False),
            text("http.batch.separator", "Text between the records of a batch.", ",", trimmed=False),
            text("http.batch.suffix", "Text after the records of a batch.", "]", trimmed=False),
            text(
                "http.null.values",
                "Records without a value. ignore: skip them. delete: send DELETE to the address. refuse: treat "
                "them as errant.",
                _IGNORE,
                Importance.MEDIUM,
                one_of(_IGNORE, _DELETE, _REFUSE),
            ),
        ]
    )
    + CONNECTION
)


class HttpSinkConnector(SinkConnector):
    """Sends records to a web service over HTTP, one request per record or per batch.

    Any number of tasks; ``http.url`` may hold ${topic} and ${key}.
    """

    def config_def(self) -> ConfigDef:
        """Return the declarations of this connector's settings."""
        return CONFIG

    def task_class(self) -> type[Any]:
        """Return the class of its tasks."""
        return HttpSinkTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """Return the same configuration for every task."""
        return [dict(self.config) for _ in range(max_tasks)]

    def validate(self, config: Mapping[str, str]) -> Mapping[str, list[str]]:
        """Return the problems of the credentials' settings, by setting."""
        return auth_problems(config)

    def alter_offsets(self, config: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]) -> bool:
        """Nothing is kept but the group's offsets."""
        return True


class HttpSinkTask(SinkTask):
    """Sends records. After a failure it does not send the same records again that were sent before."""

    clock: Callable[[], float] = staticmethod(time.time)

    def start(self, config: Mapping[str, str]) -> None:
        """Take the settings. Raises BadConfigError."""
        self._values = CONFIG.parse(config)
        self._patience = Patience(self._values)
        self._sent: set[tuple[str, int, int]] = set()
        self._charset = charset_of(self._values["http.content.type"])
        self._key_in_path = "${key}" in self._values["http.url"].partition("?")[0]
        self._client = http_client(self._values)

    def open(self, partitions: Sequence[TopicPartition]) -> None:
        """Forget the sent records: the same offsets may be delivered again on purpose."""
        self._sent.clear()

    def put(self, records: Sequence[SinkRecord]) -> None:
        """Send the records.

        Raises RetriableError: the server is unavailable. Raises DataError: the server rejects a record.
        Raises ExternalError: the failure is not caused by a record.
        """
        left = [record for record in records if _place(record) not in self._sent]
        for call, group in groupby(left, self._call):
            same = list(group)
            if call is None:
                continue
            most = 1 if call[0] in ("DELETE", _REFUSE) else self._values["http.batch.records"]
            for at in range(0, len(same), most):
                self._send(call, same[at : at + most])
        self._sent.clear()

    def _call(self, record: SinkRecord) -> Call | None:
        """Return how a record is sent, None when it is ignored."""
        method = self._values["http.method"]
        if record.value is None:
            wish = self._values["http.null.values"]
            if wish == _IGNORE:
                return None
            if wish == _REFUSE:
                return _REFUSE, "the record has no value (http.null.values=refuse)"
            method = "DELETE"
        try:
            key = "" if record.key is None else quote(_key_text(record.key), safe="")
        except UnicodeEncodeError as error:
            return _REFUSE, f"the key cannot be written in an address: {error}"
        if key in _NO_SEGMENT and self._key_in_path:
            return _REFUSE, f"the key {record.key!r} would address the parent of ${{key}} in http.url"
        url = self._values["http.url"].replace("${topic}", quote(record.topic, safe="")).replace("${key}", key)
        return method, url

    def _send(self, call: Call, records: list[SinkRecord]) -> None:
        try:
            if call[0] == _REFUSE:
                raise DataError(call[1])
            self._request(call, records)
        except PassingFailure as failure:
            wait_ms = self._patience.wait_ms(failure)
            self.context.timeout(wait_ms)
            raise RetriableError(f"{failure}, retrying in {wait_ms} ms") from failure
        except (DataError, RefusedRequestError) as error:
            if isinstance(error, RefusedRequestError) and not self._is_of_records(error):
                raise ExternalError(str(error)) from error
            self._find_refused(call, records, error)
            return
        self._patience.succeeded()
        self._sent.update(map(_place, records))

    def _request(self, call: Call, records: Sequence[SinkRecord]) -> None:
        method, url = call
        if method == "DELETE":
            try:
                request(self._client, method, url, self.clock())
            except RefusedRequestError as error:
                if error.status not in _NOT_FOUND:  # an object that does not exist need not be deleted
                    raise
            return
        parts = [self._body(record) for record in records]
        body = parts[0]
        if self._values["http.batch.records"] > 1:
            prefix, separator, suffix = (
                self._values[f"http.batch.{name}"] for name in ("prefix", "separator", "suffix")
            )
            body = f"{prefix}{separator.join(parts)}{suffix}"
        headers = {"Content-Type": self._values["http.content.type"]}
        try:
            content = body.encode(self._charset)
        except UnicodeEncodeError as error:
            raise DataError(f"the body cannot be encoded in {self._charset}: {error}") from error
        request(self._client, method, url, self.clock(), content=content, headers=headers)

    def _body(self, record: SinkRecord) -> str:
        """Return the body of one record. Raises DataError: it has no JSON form."""
        parts: dict[str, Callable[[], str]] = {
            "topic": lambda: record.topic,
            "partition": lambda: str(record.partition),
            "offset": lambda: str(record.offset),
            "timestamp": lambda: json.dumps(record.timestamp_ms),
            "key": lambda: _json(record.key_schema, record.key),
            "value": lambda: _json(record.value_schema, record.value),
        }
        return _PLACE.sub(lambda found: parts[found.group(1)](), self._values["http.body.template"])

    def _is_of_records(self, error: RefusedRequestError) -> bool:
        """Return whether the server may accept other records. False for wrong credentials or a wrong address."""
        if error.denied or error.status in _OF_SETTINGS or 300 <= error.status < 400:
            return False
        return error.status not in _NOT_FOUND or "${" in self._values["http.url"]

    def _find_refused(self, call: Call, records: list[SinkRecord], error: Exception) -> None:
        """Send the two halves of a rejected batch, and report a rejected record. Raises if there is no reporter."""
        if len(records) > 1:
            middle = len(records) // 2
            self._send(call, records[:middle])
            self._send(call, records[middle:])
            return
        reporter = self.context.errant_record_reporter()
        if reporter is None:
            raise DataError(str(error)) from error
        reporter.report(records[0], error)
        self._sent.update(map(_place, records))

    def stop(self) -> None:
        """Close the connections to the server."""
        if hasattr(self, "_client"):
            self._client.close()


def _place(record: SinkRecord) -> tuple[str, int, int]:
    return record.topic, record.partition, record.offset


def _key_text(key: Any) -> str:
    return key if isinstance(key, str) else java_text(key)


def _json(schema: Any, value: Any) -> str:
    return dump_json(to_tree(schema, value, JsonSettings())).decode()
