"""One state for a connector and its tasks together. Pure.

Java's REST API reports RUNNING for a connector whose tasks have all failed, because it means the connector's own
instance. Operators scan a list of connectors for failures, so the management API adds this state to Java's.
"""

from __future__ import annotations

from collections.abc import Mapping

DEGRADED = "DEGRADED"
AGGREGATES = ("FAILED", DEGRADED, "RESTARTING", "UNASSIGNED", "PAUSED", "STOPPED", "RUNNING")
"""Every aggregate state, the most urgent one first."""
_RANKS = {name: rank for rank, name in enumerate(AGGREGATES)}


def aggregate_state(connector: str, tasks: Mapping[str, int], *, has_error: bool = False) -> str:
    """Return one of ``AGGREGATES``.

    FAILED: the connector or every task failed. DEGRADED: some tasks failed, some have no worker while others have, or
    the connector runs and cannot make its tasks. During a change it is the wanted state: PAUSED while tasks still run.

    Args:
        connector: the connector's own state.
        tasks: state -> how many tasks are in it.
        has_error: the status of the connector has a trace.
    """
    count, failed = sum(tasks.values()), tasks.get("FAILED", 0)
    if connector == "FAILED" or (count and failed == count):
        return "FAILED"
    without_worker = tasks.get("UNASSIGNED", 0)
    if failed or 0 < without_worker < count or (has_error and connector == "RUNNING"):
        return DEGRADED
    if without_worker:
        return "UNASSIGNED"
    return "RESTARTING" if tasks.get("RESTARTING") else connector


def aggregate_rank(state: str) -> int:
    """Return the rank of a state in a list: FAILED before DEGRADED before the others; unknown ones last."""
    return _RANKS.get(state, len(_RANKS))
