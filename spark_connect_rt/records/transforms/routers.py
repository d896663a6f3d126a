"""Another topic for a record: by a regular expression or its timestamp (Java ``RegexRouter``, ``TimestampRouter``)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from spark_connect_rt.api.data.simple_date_format import format_ms, pattern_doubt, pattern_parts
from spark_connect_rt.api.records import B, SinkRecord, SourceRecord, altered
from spark_connect_rt.api.transformation import Transformation
from spark_connect_rt.config.config_def import HIGH, ConfigDef, ConfigKey, Type
from spark_connect_rt.config.java_regex import java_pattern
from spark_connect_rt.errors import BadConfigError, DataError
from spark_connect_rt.records.transforms.key_or_value import required_text, valid_regex

# The replacement of a Java regular expression: ``$1``, ``${name}``, and a backslash before a literal character.


Piece = str | int
"""Text as it is, or the number of a group."""


def replacement_pieces(pattern: re.Pattern[str], text: str) -> tuple[Piece, ...]:
    """Return the pieces of a replacement. Raises DataError as Java does when it replaces."""
    pieces: list[Piece] = []
    index = 0
    while index < len(text):
        if text[index] == "\\":
            if index + 1 == len(text):
                raise DataError("character to be escaped is missing")
            pieces.append(text[index + 1])
            index += 2
        elif text[index] == "$":
            group, index = _group(pattern, text, index + 1)
            pieces.append(group)
        else:
            pieces.append(text[index])
            index += 1
    return tuple(pieces)


def _group(pattern: re.Pattern[str], text: str, index: int) -> tuple[int, int]:
    if index == len(text):
        raise DataError("Illegal group reference: group index is missing")
    if text[index] == "{":
        found = re.compile(r"\{([A-Za-z0-9]*)(\}?)").match(text, index)
        name = found.group(1) if found else ""
        if not found or not name:
            raise DataError("named capturing group has 0 length name")
        if not found.group(2):
            raise DataError("named capturing group is missing trailing '}'")
        if name[0].isdigit():
            raise DataError(f"capturing group name {{{name}}} starts with digit character")
        if name not in pattern.groupindex:
            raise DataError(f"No group with name {{{name}}}")
        return pattern.groupindex[name], found.end()
    if text[index] not in "0123456789":
        raise DataError("Illegal group reference")
    number, index = int(text[index]), index + 1
    if number > pattern.groups:
        raise DataError(f"No group {number}")
    while index < len(text) and text[index] in "0123456789" and number * 10 + int(text[index]) <= pattern.groups:
        number, index = number * 10 + int(text[index]), index + 1
    return number, index


def replaced_first(pattern: re.Pattern[str], text: str, pieces: tuple[Piece, ...]) -> str:
    """Return ``text`` with the pattern's first match replaced (Java ``Matcher.replaceFirst``)."""
    found = pattern.search(text)
    if found is None:
        return text
    parts = [piece if isinstance(piece, str) else found.group(piece) or "" for piece in pieces]
    return f"{text[: found.start()]}{''.join(parts)}{text[found.end() :]}"


R = TypeVar("R", SourceRecord, SinkRecord)
REGEX_CONFIG = ConfigDef(
    [
        required_text("regex", "Regular expression that the whole topic name must match.", HIGH, valid_regex),
        required_text("replacement", "The new topic; $1 is the first group, ${name} a named one."),
    ]
)
TIMESTAMP_CONFIG = ConfigDef(
    [
        ConfigKey(
            "topic.format",
            Type.STRING,
            "${topic}-${timestamp}",
            HIGH,
            "The new topic; ${topic} is the old one, ${timestamp} the record's timestamp.",
        ),
        ConfigKey(
            "timestamp.format",
            Type.STRING,
            "yyyyMMdd",
            HIGH,
            "Form of the timestamp: a pattern of SimpleDateFormat, UTC.",
            doubt=pattern_doubt,
        ),
    ]
)


class RegexRouter(Transformation):
    """Renames the topics that match a regular expression."""

    def config_def(self) -> ConfigDef:
        """Return the declarations of this transformation's settings."""
        return REGEX_CONFIG

    def configure(self, config: Mapping[str, str]) -> None:
        """Take the settings. Raises BadConfigError."""
        values = REGEX_CONFIG.parse(config)
        self._pattern = java_pattern(values["regex"])
        self._replacement: str = values["replacement"]
        self._topics: dict[str, str] = {}

    def topic_for(self, topic: str) -> str:
        """Return the new topic. Raises DataError: the replacement names a group that is not there."""
        if topic not in self._topics:
            if len(self._topics) > 1_000:
                self._topics.clear()
            self._topics[topic] = self._route(topic)
        return self._topics[topic]

    def _route(self, topic: str) -> str:
        if not self._pattern.fullmatch(topic):
            return topic
        return replaced_first(self._pattern, topic, replacement_pieces(self._pattern, self._replacement))

    def apply(self, record: R) -> R | None:
        """Return the record for its new topic."""
        topic = self.topic_for(record.topic)
        return record if topic == record.topic else altered(record, topic=topic)

    takes_headers = True

    def apply_batch(self, batch: B) -> B | None:
        """Return the batch for its new topic; None: the replacement is invalid, as rows will report."""
        try:
            return replace(batch, topic=self.topic_for(batch.topic))
        except DataError:
            return None


class TimestampRouter(Transformation):
    """Renames the topic of each record by its timestamp."""

    def config_def(self) -> ConfigDef:
        """Return the declarations of this transformation's settings."""
        return TIMESTAMP_CONFIG

    def configure(self, config: Mapping[str, str]) -> None:
        """Take the settings. Raises BadConfigError: no pattern of a date."""
        values = TIMESTAMP_CONFIG.parse(config)
        self._topic_format: str = values["topic.format"]
        try:
            self.date_format = pattern_parts(values["timestamp.format"])
        except ValueError as error:
            raise BadConfigError({"timestamp.format": [str(error)]}) from error

    def apply(self, record: R) -> R | None:
        """Return the record for its new topic. Raises DataError: it has no timestamp."""
        if record.timestamp_ms is None:
            raise DataError(f"Timestamp missing on record: topic {record.topic}, partition {record.partition}")
        return altered(record, topic=self.topic_for(record.topic, record.timestamp_ms))

    def topic_for(self, topic: str, ms: int) -> str:
        """Return the topic of a record with this timestamp in ms."""
        stamp = format_ms(self.date_format, ms)
        return self._topic_format.replace("${topic}", topic).replace("${timestamp}", stamp)
