"""What to do about the state of a connector: commands that can be copied. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

Step = tuple[str, str]
"""(a command, what it is good for)."""


def next_steps(found: Mapping[str, Any], ours: bool) -> list[Step]:
    """Return the commands to type next; none for a connector that runs as it should.

    Args:
        found: a connector's row with name, state, aggregate and tasks; ``why`` and ``stalled`` where they are known.
        ours: the worker serves the management API, so it has logs and events.
    """
    name, aggregate = shlex.quote(found["name"]), found["aggregate"]
    failed = [task["id"] for task in found["tasks"] if task["state"] == "FAILED"]
    steps: list[Step] = []
    if failed or found["state"] == "FAILED":
        who = f"{name}/{failed[0]}" if failed else name
        if failed:
            steps.append((f"connectrt describe task {who}", "shows the whole trace"))
        if ours:
            steps.append((f"connectrt logs {who}", "shows what happened before"))
        steps.append((f"connectrt restart {name} --failed", "restarts it, once the cause is fixed"))
    elif aggregate in ("UNASSIGNED", "DEGRADED"):
        steps.append(("connectrt get workers", "shows which workers run"))
        if ours:
            steps.append((f"connectrt events {name}", "shows the last rebalances"))
    elif aggregate in ("PAUSED", "STOPPED"):
        steps.append((f"connectrt resume {name}", "resumes it"))
    elif aggregate == "RESTARTING":
        steps.append((f"connectrt wait {name}", "returns when it runs"))
    elif ours and (found.get("why") or found.get("stalled") or not found["tasks"]):
        steps.append((f"connectrt logs {name}", "shows its last log lines"))
        steps.append((f"connectrt events {name}", "shows failures, restarts and changes"))
    return steps


def step_lines(steps: Sequence[Step]) -> list[str]:
    """Return a line for each step, what it is good for in a column."""
    width = max((len(command) for command, _ in steps), default=0)
    return [f"{command:{width}}   {purpose}" for command, purpose in steps]
