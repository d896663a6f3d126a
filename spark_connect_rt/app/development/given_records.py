"""The records that a sink is given without a broker: lines of JSON in a file that may grow.

A line that is an object with ``value`` may also have ``key``, ``headers`` (name -> text), ``topic``, ``partition`` and
``timestamp`` (ms). Any other JSON is a value.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spark_connect_rt.errors import BadConfigError

_FIELDS = {"value", "key", "headers", "topic", "partition", "timestamp"}
_ENVELOPE = {"schema", "payload"}


@dataclass(frozen=True, slots=True)
class GivenRecord:
    """One record; key and value are bytes, or go through the connector's converters. ``partition`` None: any."""

    topic: str
    value: Any
    key: Any = None
    partition: int | None = None
    timestamp_ms: int | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()


@dataclass(slots=True)
class RecordFile:
    """A file of records, read on from where it was read last. ``topic``: of lines without one, None: each needs one."""

    path: Path
    topic: str | None
    _position: int = 0
    _lines: int = field(default=0)

    def new_records(self) -> list[GivenRecord]:
        """Return the records of the whole lines that were added since. A file that got shorter is read again.

        Raises BadConfigError: the file cannot be read, or a line is invalid; it names the line.
        """
        try:
            with self.path.open("rb") as file:
                if file.seek(0, 2) < self._position:
                    self._position = self._lines = 0
                file.seek(self._position)
                text = file.read()
        except OSError as error:
            raise BadConfigError({str(self.path): [f"cannot be read: {error.strerror or error}"]}) from error
        last = text.rfind(b"\n") + 1
        if text[last:].strip() and _is_json(text[last:]):
            last = len(text)  # the last line may lack its end
        found = []
        for line in text[:last].splitlines():
            self._lines += 1
            if line.strip():
                found.append(parse_record(line, self.topic, f"{self.path.name}:{self._lines}"))
        self._position += last
        return found


def parse_record(line: bytes | str, topic: str | None, where: str) -> GivenRecord:
    """Return the record of one line; ``topic`` is its default. Raises BadConfigError naming ``where``."""
    try:
        given = json.loads(line)
    except ValueError as error:
        raise BadConfigError({where: [f"is not JSON: {error}"]}) from error
    if not isinstance(given, dict) or "value" not in given or not given.keys() <= _FIELDS:
        return GivenRecord(_named(topic, where), _data(given))
    headers = {} if given.get("headers") is None else given["headers"]
    if not isinstance(headers, dict):
        raise BadConfigError({where: ['headers must be an object: {"name": "text"}']})
    numbers = [given.get(name) for name in ("partition", "timestamp")]
    if not all(number is None or (isinstance(number, int) and number >= 0) for number in numbers):
        raise BadConfigError({where: ["partition and timestamp must be whole numbers from 0 on"]})
    return GivenRecord(
        _named(given.get("topic") or topic, where),
        _data(given["value"]),
        _data(given.get("key")),
        numbers[0],
        numbers[1],
        tuple((name, _text(text)) for name, text in headers.items()),
    )


def _named(topic: Any, where: str) -> str:
    if not topic:
        raise BadConfigError(
            {where: ['must name its topic, because the connector has topics.regex: {"topic": "orders-eu", "value": 1}']}
        )
    return str(topic)


def _data(given: Any) -> Any:
    """Return what is sent: JSON with its schema as it is written, everything else for the converters."""
    if isinstance(given, Mapping) and given.keys() == _ENVELOPE:
        return json.dumps(given).encode()
    return given


def _text(given: Any) -> bytes | None:
    if given is None:
        return None
    return (given if isinstance(given, str) else json.dumps(given)).encode()


def _is_json(text: bytes) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True
