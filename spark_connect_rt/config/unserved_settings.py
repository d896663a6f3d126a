"""Settings of Kafka Connect whose effect this version does not have.

A promise that would be broken in silence (protection, exactly-once, a dead letter queue) is refused; what only changes
comfort is a warning. A line goes when the feature comes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


def _given(value: Any) -> bool:
    return bool(value)


def _other_than(*usual: str) -> Callable[[Any], bool]:
    return lambda value: bool(value) and str(value).lower() not in usual


@dataclass(frozen=True, slots=True)
class Unserved:
    """One setting, when it asks for what is not there, and what to do instead."""

    name: str
    asks: Callable[[Any], bool]
    instead: str


def _any_https(listeners: Any) -> bool:
    return any(str(one).lower().startswith("https:") for one in listeners or ())


REFUSED_OF_WORKERS = (
    Unserved(
        "listeners",
        _any_https,
        "the REST API has no TLS in this version: listen on http, on loopback, behind a proxy that ends TLS",
    ),
    Unserved(
        "rest.extension.classes",
        _given,
        "REST extensions are Java classes and cannot run here; what they protect must be protected in front of the API",
    ),
    Unserved(
        "exactly.once.source.support",
        _other_than("disabled", "preparing"),
        "exactly-once sources are not in this version: leave it disabled",
    ),
)
WARNED_OF_WORKERS = (
    Unserved("listeners", lambda value: len(value or ()) > 1, "only the first listener is served"),
    Unserved("admin.listeners", lambda value: value is not None, "/admin is served where the REST API is"),
    Unserved("access.control.allow.origin", _given, "no header for other origins is sent"),
    Unserved("access.control.allow.methods", _given, "no header for other origins is sent"),
    Unserved("response.http.headers.config", _given, "no headers are added"),
    Unserved("plugin.path", _given, "Java plug-ins cannot run here; Python ones are found where Python finds modules"),
    Unserved("exactly.once.source.support", _other_than("disabled"), "this worker takes no part in the preparation"),
)
REFUSED_OF_SOURCES = (
    Unserved(
        "exactly.once.support",
        _other_than("requested"),
        "exactly-once sources are not in this version: leave it at requested",
    ),
)
REFUSED_OF_SINKS = (
    Unserved(
        "errors.deadletterqueue.topic.name",
        _given,
        "dead letter queues are not in this version: leave it empty (errant records are counted), or stop at the "
        "first one with errors.tolerance=none",
    ),
)


def unserved(settings: tuple[Unserved, ...], values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return (setting, what to do instead) for each of ``settings`` that asks for something."""
    return [(one.name, one.instead) for one in settings if one.asks(values.get(one.name))]
