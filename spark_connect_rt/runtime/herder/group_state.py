"""State of the group and of this worker's membership, as the tick knows it. Only the tick thread writes it.

Other threads read ``view``, an immutable value that is replaced whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.group.assignments import ConnectorsAndTasks
from spark_connect_rt.group.assignor import AssignorMemory
from spark_connect_rt.group.compact.reported_work import ClaimRules, Known
from spark_connect_rt.group.load import Swap
from spark_connect_rt.group.peers import GroupStanding
from spark_connect_rt.group.rebalance_plan import Restarts
from spark_connect_rt.group.subprotocol import Assignment, ConnectProtocol
from spark_connect_rt.topics.config_state import EMPTY, ClusterConfigState


@dataclass(frozen=True, slots=True)
class GroupView:
    """The group as REST sees it."""

    is_leader: bool = False
    leader_url: str | None = None
    generation: int = -1
    protocol: ConnectProtocol | None = None  # None before the first join
    once_stable: bool = False
    own_group: bool = False
    member_urls: tuple[str, ...] = ()  # of every member, where this worker leads


@dataclass(slots=True)
class GroupState:
    """The group's state, which the steps of a tick share. Only the tick thread writes it."""

    protocol: ConnectProtocol
    own_group: bool = False  # every member is a worker of this product (group.subprotocol.is_own_group)
    generation: int = -1
    member_id: str = ""
    assignment: Assignment | None = None
    held: ConnectorsAndTasks | None = None  # None: nothing held, or everything given up
    to_adopt: bool = False  # an assignment came and its config offset is not checked yet
    resolved: bool = False  # the assignment is adopted: work runs, requests are served
    join_reason: str | None = None  # the member waits for our JoinGroup
    join_by_ms: int = 0
    rejoin_when_stopped: str | None = None
    rejoin_because: str | None = None  # a step that cannot ask itself wants a rebalance
    rejoin_asked: bool = False  # until the next JoinRequired
    fenced_generation: int = -1  # in which a newer leader shut this one out of the config topic
    scheduled_rebalance_ms: int | None = None  # monotonic
    joined_with: ClusterConfigState = EMPTY  # its config offset is in the metadata
    adopted: ClusterConfigState = EMPTY  # the running work was dealt from it
    memory: AssignorMemory = field(default_factory=AssignorMemory)
    known: Known = field(default_factory=dict)  # the leader's: meaning of the digests in the compact form
    swaps: tuple[Swap, ...] = ()  # the leader's: tasks that the next round revokes, for load
    bound_for: Mapping[ConnectorTaskId, str] = field(
        default_factory=dict
    )  # task that was -> URL of the worker it goes to
    claim_rules: ClaimRules = field(default_factory=ClaimRules)  # facts that the next compact metadata may omit
    last_completed_generation: int = -1
    owner_urls: Mapping[str | ConnectorTaskId, str] = field(default_factory=dict)
    member_urls: tuple[str, ...] = ()  # as the leader read them in the members' metadata
    can_read_config: bool = True
    read_failures: int = 0
    read_again_ms: int = 0
    read_first: bool = False  # led a round and knew too little: joins the next one when it has read on
    unsure: bool = False  # a write failed and may be there all the same: task sets wait until the topic was read
    restarts: Restarts = field(default_factory=lambda: Restarts({}))
    stopping: bool = False
    view: GroupView = field(default_factory=GroupView)

    @property
    def is_leader(self) -> bool:
        """Return whether this worker leads a completed rebalance."""
        return bool(self.member_id) and self.assignment is not None and self.assignment.leader_id == self.member_id

    @property
    def standing(self) -> GroupStanding:
        """Return where this worker stands, for routing."""
        leader_url = self.assignment.leader_url if self.assignment and self.member_id else None
        # Empty: the leader asks for another round before it says where it is.
        return GroupStanding(self.is_leader, leader_url or None)

    def publish(self) -> None:
        """Replace the view that other threads read."""
        standing = self.standing
        self.view = GroupView(
            is_leader=standing.is_leader,
            leader_url=standing.leader_url,
            generation=self.generation,
            protocol=self.protocol if self.last_completed_generation >= 0 else None,
            once_stable=self.view.once_stable or self.resolved,
            own_group=self.own_group,
            member_urls=self.member_urls if standing.is_leader else (),
        )

    def stop_leading(self) -> None:
        """A newer leader claimed the config topic: write nothing more until the group has said who leads.

        Java claims again while it still believes to lead, and so a zombie shuts the leader out in turn.
        """
        self.fenced_generation = self.generation
        self.rejoin_because = "a newer leader shut this one out of the config topic"

    def give_up_work(self) -> None:
        """Hold nothing any more: reconciling stops everything."""
        self.held = None
        self.resolved = False
        self.to_adopt = False
        self.rejoin_when_stopped = None
        self.scheduled_rebalance_ms = None
