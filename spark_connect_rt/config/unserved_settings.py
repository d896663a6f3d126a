"""Settings of Kafka Connect whose effect this version does not have.

A promise that would be broken in silence (protection, exactly-once) is refused; what only changes
comfort is a warning. A line goes when the feature comes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Unserved:
    """One setting, when it asks for what is not there, and what to do instead."""

    name: str
    asks: Callable[[Any], bool]
    instead: str


REFUSED_OF_WORKERS: tuple[Unserved, ...] = ()
WARNED_OF_WORKERS: tuple[Unserved, ...] = ()
REFUSED_OF_SOURCES: tuple[Unserved, ...] = ()
REFUSED_OF_SINKS: tuple[Unserved, ...] = ()

WITHOUT_EFFECT = {
    "metrics.sample.window.ms": "there are no metrics; see /admin/progress",
    "metrics.num.samples": "there are no metrics; see /admin/progress",
    "metrics.recording.level": "there are no metrics; see /admin/progress",
}
"""For the reference pages: settings whose default promises nothing, so that no worker speaks of them."""


def in_this_version(name: str) -> str:
    """Return what the reference page adds about a setting; empty when it has its whole effect."""
    tables = (*REFUSED_OF_WORKERS, *WARNED_OF_WORKERS, *REFUSED_OF_SOURCES, *REFUSED_OF_SINKS)
    notes = [one.instead for one in tables if one.name == name] + [WITHOUT_EFFECT.get(name, "")]
    return "; ".join(filter(None, notes))


def unserved(settings: tuple[Unserved, ...], values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return (setting, what to do instead) for each of ``settings`` that asks for something."""
    return [(one.name, one.instead) for one in settings if one.asks(values.get(one.name))]
