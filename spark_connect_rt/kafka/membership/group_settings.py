"""What a membership is made with, from worker properties by their Java names.

Owns the group's times and the limits derived from them. Pure but for reading certificates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spark_connect_rt.errors import BadConfigError
from spark_connect_rt.kafka.group_security import connection_arguments
from spark_connect_rt.kafka.membership.group_link import LinkSettings
from spark_connect_rt.state.membership import Timing

_DEFAULTS_MS = {
    "session.timeout.ms": 10_000,
    "heartbeat.interval.ms": 3_000,
    "rebalance.timeout.ms": 60_000,
    "request.timeout.ms": 40_000,
    "retry.backoff.ms": 100,
    "retry.backoff.max.ms": 1_000,
    "socket.connection.setup.timeout.ms": 10_000,
}
REBALANCE_MARGIN_MS = 5_000


@dataclass(frozen=True, slots=True)
class MemberSettings:
    """Times of the group and how to connect."""

    timing: Timing
    link: LinkSettings
    retry_backoff_ms: int
    retry_backoff_max_ms: int

    def backoff_ms(self, failures: int) -> int:
        """Return how long to wait after that many failed attempts: doubling, up to the maximum."""
        return int(min(self.retry_backoff_ms * 2 ** min(failures - 1, 20), self.retry_backoff_max_ms))


def member_settings(
    config: Mapping[str, Any], client_id: str | None = None, token_provider: Any = None
) -> MemberSettings:
    """Read worker properties; missing ones take Connect's defaults. Raises BadConfigError with every problem.

    A quick request must be answered within half a session: with Java's ``request.timeout.ms`` (40 s) a hung
    broker would go unnoticed for four sessions.
    """
    problems: dict[str, list[str]] = {
        name: ["is required"] for name in ("group.id", "bootstrap.servers") if not config.get(name)
    }
    times = {name: _time_ms(config, name, default, problems) for name, default in _DEFAULTS_MS.items()}
    session_ms, heartbeat_ms = times["session.timeout.ms"], times["heartbeat.interval.ms"]
    if heartbeat_ms >= session_ms and "heartbeat.interval.ms" not in problems:
        problems["heartbeat.interval.ms"] = [f"must be below session.timeout.ms ({session_ms})"]
    if problems:
        raise BadConfigError(problems)
    texts = {name: str(value) for name, value in config.items() if value is not None}
    rebalance_ms = times["rebalance.timeout.ms"]
    return MemberSettings(
        timing=Timing(session_ms, heartbeat_ms, rebalance_ms),
        link=LinkSettings(
            group_id=texts["group.id"],
            bootstrap_servers=_servers(config["bootstrap.servers"]),
            client_id=client_id or texts.get("client.id") or "connect",
            answer_limit_ms=min(times["request.timeout.ms"], session_ms // 2),
            rebalance_limit_ms=max(times["request.timeout.ms"], rebalance_ms + REBALANCE_MARGIN_MS),
            setup_limit_ms=min(times["socket.connection.setup.timeout.ms"], session_ms // 2),
            security=connection_arguments(texts, token_provider),
        ),
        retry_backoff_ms=times["retry.backoff.ms"],
        retry_backoff_max_ms=max(times["retry.backoff.max.ms"], times["retry.backoff.ms"]),
    )


def _time_ms(config: Mapping[str, Any], name: str, default_ms: int, problems: dict[str, list[str]]) -> int:
    value = config.get(name)
    if value is None or value == "":
        return default_ms
    try:
        time_ms = int(value)
    except (TypeError, ValueError):
        problems[name] = [f"{value!r} is not a number of milliseconds"]
        return default_ms
    if time_ms < 0 or (time_ms == 0 and not name.startswith("retry.")):
        problems[name] = ["must be above 0"]
        return default_ms
    return time_ms


def _servers(value: Any) -> str:
    return value if isinstance(value, str) else ",".join(value)
