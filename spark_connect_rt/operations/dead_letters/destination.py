"""Where a replayed letter goes. Pure.

Owns the refusals: who may write a dead letter queue decides what its headers say, and must not reach topics by that
which the connector has nothing to do with.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from spark_connect_rt.config.config_def import Type, parse_value
from spark_connect_rt.config.java_regex import java_pattern
from spark_connect_rt.errors import DataError
from spark_connect_rt.operations.dead_letters.letter import CONVERTER, Letter


@dataclass(frozen=True, slots=True)
class Origins:
    """The topics that letters of one connector may have come from; nothing known: any."""

    topics: tuple[str, ...] = ()
    pattern: re.Pattern[str] | None = None

    @classmethod
    def of(cls, config: Mapping[str, str] | None) -> Origins:
        """Return those of a sink connector's configuration; None: the connector is not known. Sources may: any."""
        if config is None:
            return cls()
        pattern = config.get("topics.regex")
        topics = tuple(topic for topic in parse_value(Type.LIST, config.get("topics") or "") if topic)
        return cls(topics, java_pattern(pattern) if pattern else None)

    def topic(self, letter: Letter) -> str:
        """Return the topic a letter came from. Raises DataError: nothing says so, or it is none of the connector's."""
        topic = letter.origin_topic
        if topic is None and len(self.topics) == 1:
            return self.topics[0]
        if topic is None:
            raise DataError(
                "its original topic is unknown, because errors.deadletterqueue.context.headers.enable was false"
            )
        if (self.topics and topic not in self.topics) or (self.pattern and not self.pattern.fullmatch(topic)):
            raise DataError(f"it came from {topic}, which is not a topic of the connector")
        return topic


def check_encoding(letter: Letter, edited: Callable[[str], bool]) -> None:
    """Raise DataError for a letter whose bytes are not what its topic holds, unless they were edited."""
    for part in ("key", "value"):
        how = letter.encoding(part)
        if how != CONVERTER and getattr(letter, part) is not None and not edited(part):
            raise DataError(f"its {part} was never converted (it is {how}). Edit it into the topic's format")


def partition_of(letter: Letter, count: int, *, key_changed: bool, same_topic: bool) -> int | None:
    """Return the partition to write to, None: the one of its key. ``count``: partitions that there are."""
    number = letter.origin_partition
    if number is None or number >= count or key_changed or not same_topic:
        return None
    return number
