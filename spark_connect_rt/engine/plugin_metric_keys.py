"""How what a task measures itself is named on its way from an executor: one text for group, name, tags and part.

Owns that text; ``engine.executor.plugin_metrics`` writes it, ``runtime.worker.plugin_metrics`` reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import orjson

PREFIX = "plugin:"
COUNT = "count"  # what was counted
VALUE = "value"  # what it is now
JMX = "jmx:"  # before the domain of a Java plug-in's MBeans, as their group
SUM, NUMBER, MOST, LEAST = "sum", "number", "most", "least_negated"  # of what was observed


class PluginMetricKey(NamedTuple):
    """A metric of a task's own; ``tags`` beside its task's."""

    group: str
    name: str
    tags: Mapping[str, str]

    def encode(self) -> str:
        """Return the text; equal keys have equal ones."""
        return PREFIX + orjson.dumps(tuple(self), option=orjson.OPT_SORT_KEYS).decode()

    @classmethod
    def decode(cls, text: str) -> PluginMetricKey:
        """Return the key of a text that ``encode`` made."""
        return cls(*orjson.loads(text.removeprefix(PREFIX)))


def part_of(key: str, part: str) -> str:
    """Return the name that one part of a metric is counted under."""
    return f"{key}#{part}"


def is_value(name: str) -> bool:
    """Tell whether a name is of what something is now, and no total."""
    return name.endswith(f"#{VALUE}")


def parted(name: str) -> tuple[str, str]:
    """Return the key and the part of a name that ``part_of`` made."""
    key, _, part = name.rpartition("#")
    return key, part
