"""A member that knows only the eager protocol, as a Java worker with ``connect.protocol=eager``."""

from __future__ import annotations

from spark_connect_rt.group.member import Assigned, JoinRequired
from spark_connect_rt.group.subprotocol import ConnectProtocol, WorkerMetadata, decode_assignment, join_protocols
from tests.support.simulation.simulated_cluster import SimulatedCluster
from tests.support.simulation.simulated_log import Link
from tests.support.simulation.simulated_threads import SimulatedProcess


class EagerMember:
    """Joins, and remembers what it is given; runs nothing."""

    def __init__(self, cluster: SimulatedCluster, name: str) -> None:
        self.name = name
        self.given = "-"
        self._cluster = cluster
        process = SimulatedProcess(cluster.scheduler, name)
        self._member = cluster.group.join_member(name, process, Link(cluster.scheduler), cluster.timing)
        self._member.start()
        process.start("herder", self._run)

    def leave(self) -> None:
        """Leave the group in order."""
        self._member.stop()

    def _run(self) -> None:
        while True:
            for event in self._member.poll(3_000):
                if isinstance(event, JoinRequired):
                    store = next(iter(self._cluster.workers.values())).config_store
                    metadata = WorkerMetadata(f"http://{self.name}:8083/", store.snapshot().offset, None)
                    self._member.join(join_protocols(ConnectProtocol.EAGER, metadata))
                elif isinstance(event, Assigned):
                    assignment = decode_assignment(event.assignment)
                    work = [*assignment.connectors, *map(str, assignment.tasks)]
                    self.given = " ".join(sorted(work)) or "-"
