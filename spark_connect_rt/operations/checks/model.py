"""Checks of a configuration that reach out: hosts, credentials, topics, registries, offsets; one line each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from spark_connect_rt.api.outside_checks import Level
from spark_connect_rt.base.json_shape import JsonShape, described, one_of

VALIDATION, NAME, HOST, CREDENTIALS, TOPIC = "validation", "name", "host", "credentials", "topic"
REGISTRY, OFFSETS, CONVERTER, LETTERS = "schema registry", "offsets", "converter", "dead letters"
CHECKS = (VALIDATION, NAME, CONVERTER, HOST, CREDENTIALS, TOPIC, LETTERS, REGISTRY, OFFSETS)
"""Kinds of lines, in the order of an answer; a connector's own may have others, which come last."""


@dataclass(frozen=True, slots=True)
class CheckRequest:
    """What is checked: a configuration, or that of a connector that is there."""

    name: str | None = None
    config: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class CheckLine(JsonShape):
    """One line."""

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


@dataclass(frozen=True, slots=True)
class Obstacles:
    """Why places cannot be reached from a host, in their order; an empty one: it can."""

    host: str
    why: Sequence[str]


class ReachFrom(Protocol):
    """Looks from where tasks run. Any thread."""

    def __call__(self, places: Sequence[tuple[str, int]], limit_s: float) -> Obstacles:
        """Connect to every (host, port). Blocks that long at most. Raises ConnectError: none could look."""


@dataclass(frozen=True, slots=True)
class TopicRights:
    """A topic as one client sees it; None: the cluster does not say."""

    partitions: int
    may_read: bool | None = None
    may_write: bool | None = None


@dataclass(frozen=True, slots=True)
class NewTopicPlan:
    """A topic that would be made; -1: the broker's default."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    settings: Mapping[str, str] = field(default_factory=dict)


class Clusters(Protocol):
    """Looks at Kafka clusters with any client's properties, resolved. Changes nothing; raises ConnectError."""

    def reach(self, properties: Mapping[str, str], limit_s: float) -> int:
        """Return how many brokers there are. Raises BadConfigError naming a setting of TLS or SASL, RetriableError."""

    def topics(self, properties: Mapping[str, str], limit_s: float) -> Mapping[str, int]:
        """Return the partitions of every topic that this client may see."""

    def rights(
        self, properties: Mapping[str, str], topics: Sequence[str], limit_s: float
    ) -> Mapping[str, TopicRights | None]:
        """Return what there is of each topic, None: there is none, or this client may not know."""

    def obstacle(self, properties: Mapping[str, str], plan: NewTopicPlan, limit_s: float) -> str:
        """Say why a topic could not be made; empty: it could. Nothing is made."""
