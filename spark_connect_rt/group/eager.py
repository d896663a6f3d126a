"""The assignor of ``connect.protocol=eager``: everything is dealt out from scratch, round-robin, each time.

Stateless (Java ``EagerAssignor``). Members stop all work before they join, so nothing is ever revoked.
"""

from __future__ import annotations

from itertools import cycle

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.group.assignments import AssignmentResult, AssignmentRound, ConnectorsAndTasks
from spark_connect_rt.group.subprotocol import Assignment


def assign(this_round: AssignmentRound) -> AssignmentResult:
    """Deal connectors, then tasks, to the members in order of their ids, without starting over between."""
    members = sorted(this_round.members)
    connectors: dict[str, list[str]] = {member: [] for member in members}
    tasks: dict[str, list[ConnectorTaskId]] = {member: [] for member in members}
    turn = cycle(members)
    configured = this_round.configured.in_order()
    for connector in configured.connectors:
        connectors[next(turn)].append(connector)
    for task in configured.tasks:
        tasks[next(turn)].append(task)
    owners = {m: ConnectorsAndTasks(tuple(connectors[m]), tuple(tasks[m])) for m in members}
    return AssignmentResult(
        assignments={
            member: Assignment(
                leader_id=this_round.leader_id,
                leader_url=this_round.leader_url,
                config_offset=this_round.config_offset,
                connectors=owned.connectors,
                tasks=owned.tasks,
            )
            for member, owned in owners.items()
        },
        owners=owners,
    )
