"""One dead letter as it lies in its queue, and which letters a query wants. Pure.

Owns: reading Connect's headers (of our workers and of Java's), the filters of ``/admin/dead-letters``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from spark_connect_rt.errors import BadRequestError
from spark_connect_rt.records.pipeline.dead_letter_headers import split_headers

CONVERTER = "converter"
NUMBER_MAX = 2**63 - 1
FILTERS = ("partition", "stage", "class", "message", "origin", "from_ms", "to_ms", "replayed")
_PARTITION_MAX = 2**31 - 1
_TEXT_MAX = 10_000  # characters of a filter


@dataclass(frozen=True, slots=True)
class Letter:
    """A record of a dead letter queue; ``at_ms`` is the time of the record it was."""

    topic: str
    partition: int
    offset: int
    at_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]  # those the record had
    errors: Mapping[str, str | None]  # Connect's, without their prefix

    @property
    def size(self) -> int:
        """Return about how many bytes it holds."""
        in_headers = sum(len(name) + len(data or b"") for name, data in self.headers)
        return len(self.key or b"") + len(self.value or b"") + in_headers

    @property
    def origin_topic(self) -> str | None:
        """Return the topic its record was read from, or was to be written to."""
        return self.errors.get("topic") or None

    @property
    def origin_partition(self) -> int | None:
        """Return its partition, None when it had none yet (sources)."""
        return _number(self.errors.get("partition"))

    @property
    def origin_offset(self) -> int | None:
        """Return its offset, None when it had none yet (sources)."""
        return _number(self.errors.get("offset"))

    def encoding(self, part: str) -> str:
        """Return how the bytes of ``key`` or ``value`` were made: converter, json, text or input."""
        return self.errors.get(f"{part}.encoding") or CONVERTER


def letter_of(
    topic: str,
    place: tuple[int, int, int],
    key: bytes | None,
    value: bytes | None,
    headers: Iterable[tuple[str, bytes | None]],
) -> Letter:
    """Return the letter of a record; ``place``: partition, offset, time in ms."""
    own, errors = split_headers(headers)
    return Letter(topic, *place, key, value, own, errors)


def _number(text: str | None) -> int | None:
    try:
        number = int(text or "")
    except ValueError:
        return None
    return number if 0 <= number <= NUMBER_MAX else None


@dataclass(frozen=True, slots=True)
class LetterFilter:
    """Which letters are wanted; None: any."""

    partition: int | None = None
    stage: str | None = None
    class_name: str | None = None
    message: str | None = None
    origin: str | None = None
    from_ms: int | None = None
    to_ms: int | None = None
    replayed: bool | None = None

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> LetterFilter:
        """Return what a query or a body asks for. Raises BadRequestError naming the field."""
        unknown = sorted(set(given) - set(FILTERS))
        if unknown:
            raise BadRequestError(f"unknown filter {', '.join(unknown)}. Use {', '.join(FILTERS)}")
        return cls(
            partition=_whole(given, "partition", _PARTITION_MAX),
            stage=_text(given, "stage"),
            class_name=_text(given, "class"),
            message=_text(given, "message"),
            origin=_text(given, "origin"),
            from_ms=_whole(given, "from_ms", NUMBER_MAX),
            to_ms=_whole(given, "to_ms", NUMBER_MAX),
            replayed=_flag(given, "replayed"),
        )

    def as_fields(self) -> dict[str, Any]:
        """Return it as ``of`` takes it."""
        values = (self.partition, self.stage, self.class_name, self.message)
        rest = (self.origin, self.from_ms, self.to_ms, self.replayed)
        return {name: value for name, value in zip(FILTERS, (*values, *rest), strict=True) if value is not None}

    def lets(self, letter: Letter, is_replayed: bool) -> bool:
        """Return whether the letter is wanted.

        ``stage`` is compared whole, ``class`` with the class at work and the exception's (whole, or its last part),
        ``message`` is looked for within the exception's, ``origin`` is a topic or ``topic-partition``.
        """
        return (
            self.partition in (None, letter.partition)
            and self.replayed in (None, is_replayed)
            and (self.from_ms is None or letter.at_ms >= self.from_ms)
            and (self.to_ms is None or letter.at_ms < self.to_ms)
            and (self.stage is None or (letter.errors.get("stage") or "").lower() == self.stage.lower())
            and (self.class_name is None or self._is_of_class(letter, self.class_name))
            and (self.message is None or self.message.lower() in (letter.errors.get("exception.message") or "").lower())
            and (self.origin is None or self._is_from(letter, self.origin))
        )

    @staticmethod
    def _is_of_class(letter: Letter, wanted: str) -> bool:
        names = (letter.errors.get("class.name") or "", letter.errors.get("exception.class.name") or "")
        return any(wanted in (name, name.rpartition(".")[2]) for name in names if name)

    @staticmethod
    def _is_from(letter: Letter, wanted: str) -> bool:
        topic = letter.origin_topic
        return topic is not None and wanted in (topic, f"{topic}-{letter.origin_partition}")


def _text(given: Mapping[str, Any], name: str) -> str | None:
    value = given.get(name)
    if value is None or value == "":
        return None
    if not isinstance(value, str) or len(value) > _TEXT_MAX:
        raise BadRequestError(f"{name}: must be a string of at most {_TEXT_MAX} characters")
    return value


def _whole(given: Mapping[str, Any], name: str, most: int) -> int | None:
    value = given.get(name)
    if value is None or value == "":
        return None
    return whole_number(value, name, 0, most)


def whole_number(value: Any, name: str, least: int, most: int) -> int:
    """Return a number that may be a text. Raises BadRequestError naming the field."""
    text = str(value) if not isinstance(value, bool | float) else ""
    if text.isascii() and text.isdigit() and len(text) <= len(str(most)) and least <= int(text) <= most:
        return int(text)
    raise BadRequestError(f"{name}: must be a whole number from {least} to {most}")


def _flag(given: Mapping[str, Any], name: str) -> bool | None:
    value = given.get(name)
    if value is None or value == "":
        return None
    known = {"true": True, "false": False}
    if str(value).lower() not in known:
        raise BadRequestError(f"{name}: must be true or false")
    return known[str(value).lower()]
