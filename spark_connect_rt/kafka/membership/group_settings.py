"""Settings of a membership, made from a worker's settings.

Owns the group's times and the limits derived from them. Pure but for reading certificates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from spark_connect_rt.base.backoff import Backoff
from spark_connect_rt.config.bootstrap_servers import plain_servers
from spark_connect_rt.config.group_config import GroupSettings
from spark_connect_rt.config.worker_config import ConnectionSettings
from spark_connect_rt.errors import BadConfigError
from spark_connect_rt.group.membership import Timing
from spark_connect_rt.kafka.group_security import connection_arguments
from spark_connect_rt.kafka.membership.group_link import LinkSettings

REBALANCE_MARGIN_MS = 5_000


@dataclass(frozen=True, slots=True)
class MemberSettings:
    """Times of the group and how to connect."""

    timing: Timing
    link: LinkSettings
    retry_backoff_ms: int
    retry_backoff_max_ms: int

    def backoff_ms(self, failures: int, chance: float) -> float:
        """Return how long to wait after that many failed attempts; ``chance`` as of ``Backoff.wait``."""
        return Backoff(self.retry_backoff_ms, self.retry_backoff_max_ms).wait(failures, chance)


def member_settings(
    group: GroupSettings, connection: ConnectionSettings, properties: Mapping[str, str]
) -> MemberSettings:
    """Return the settings of one member. Raises BadConfigError with every problem.

    A quick request must be answered within half a session: with Java's ``request.timeout.ms`` (40 s) a hung
    broker would go unnoticed for four sessions.

    Args:
        group: the worker's, its times and its client id.
        connection: the worker's.
        properties: ``bootstrap.servers`` and what says how to connect: ``security.protocol``, ``ssl.*``, ``sasl.*``.
    """
    session_ms, heartbeat_ms = group.session_timeout_ms, group.heartbeat_interval_ms
    problems: dict[str, list[str]] = {name: ["must be above 0"] for name in _not_above_0(group, connection)}
    problems |= {
        name: ["is required"]
        for name, value in (("group.id", group.group_id), ("bootstrap.servers", properties.get("bootstrap.servers")))
        if not value
    }
    if heartbeat_ms >= session_ms:
        problems.setdefault("heartbeat.interval.ms", [f"must be below session.timeout.ms ({session_ms})"])
    if problems:
        raise BadConfigError(problems)
    request_ms = connection.request_timeout_ms
    return MemberSettings(
        timing=Timing(session_ms, heartbeat_ms, group.rebalance_timeout_ms),
        link=LinkSettings(
            group_id=group.group_id,
            bootstrap_servers=plain_servers(properties["bootstrap.servers"]),
            client_id=group.client_id or "connect",
            answer_limit_ms=min(request_ms, session_ms // 2),
            rebalance_limit_ms=max(request_ms, group.rebalance_timeout_ms + REBALANCE_MARGIN_MS),
            setup_limit_ms=min(connection.socket_connection_setup_timeout_ms, session_ms // 2),
            security=connection_arguments(properties),
        ),
        retry_backoff_ms=connection.retry_backoff_ms,
        retry_backoff_max_ms=max(connection.retry_backoff_max_ms, connection.retry_backoff_ms),
    )


def _not_above_0(group: GroupSettings, connection: ConnectionSettings) -> list[str]:
    times_ms = {
        "session.timeout.ms": group.session_timeout_ms,
        "heartbeat.interval.ms": group.heartbeat_interval_ms,
        "rebalance.timeout.ms": group.rebalance_timeout_ms,
        "request.timeout.ms": connection.request_timeout_ms,
        "socket.connection.setup.timeout.ms": connection.socket_connection_setup_timeout_ms,
    }
    return [name for name, time_ms in times_ms.items() if time_ms <= 0]
