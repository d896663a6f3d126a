"""Checks of a configuration that reach out: hosts, credentials, topics, registries, offsets; one line each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from spark_connect_rt.api.outside_checks import Level
from spark_connect_rt.base.json_text import JsonShape, described, one_of

VALIDATION, NAME, HOST, CREDENTIALS, TOPIC = "validation", "name", "host", "credentials", "topic"
REGISTRY, OFFSETS, CONVERTER, LETTERS = "schema registry", "offsets", "converter", "dead letters"
CHECKS = (VALIDATION, NAME, CONVERTER, HOST, CREDENTIALS, TOPIC, LETTERS, REGISTRY, OFFSETS)
"""Kinds of lines, in the order of an answer; a connector's own may have others, which come last."""


@dataclass(frozen=True, slots=True)
class CheckRequest:
    """The subject of a check: a configuration, or the configuration of an existing connector."""

    name: str | None = None
    config: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class CheckLine(JsonShape):
    """One line of a check: its subject, its level and its text."""

    check: str = field(metadata=described(f"{', '.join(CHECKS)}, or one of the connector."))
    setting: str = field(metadata=described("Setting that the line is about. Empty: no particular setting."))
    ok: bool = field(metadata=described("true unless it is a problem. A warning is also ok."))
    level: str = field(metadata=one_of(member.value for member in Level))
    what: str
    change: str = field(metadata=described("What to change. Empty: nothing."))
    where: str = field(default="", metadata=described("Where it was checked: worker host:port, or executor host."))


@dataclass(frozen=True, slots=True)
class CheckReport(JsonShape):
    """All lines. ``ok``: none is a problem."""

    ok: bool
    lines: tuple[CheckLine, ...]


class Checks(Protocol):
    """Checks of any configuration, from where a worker is."""

    def check(self, request: CheckRequest) -> CheckReport:
        """Return every line; blocks for some seconds. Raises NotFoundError, ConnectError (too many at once)."""
