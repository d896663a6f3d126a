"""Several brokers of one Apache Kafka (KRaft) on loopback, to see what happens when one of them goes.

Owns: which node is what, the ports, the cluster's id. Node 1 is the controller and a broker; the others are brokers
only, so any of them may be killed and the cluster goes on. Processes are ``EmbeddedKafka``'s.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from spark_connect_rt.app.quickstart.embedded_kafka import (
    EXIT_BROKER_FAILED,
    START_LIMIT_S,
    EmbeddedKafka,
    free_ports,
    new_cluster_id,
)
from spark_connect_rt.engine.startup.java_home import Java, find_java
from spark_connect_rt.errors import StartupError

CONTROLLER_NODE = 1


def node_properties(node: int, ports: Mapping[int, int], controller_port: int) -> dict[str, str]:
    """Return what one node's settings are besides ``broker_properties``.

    Args:
        node: the node's id.
        ports: node id -> client port, of all nodes.
        controller_port: where the brokers find the controller.
    """
    address = f"PLAINTEXT://127.0.0.1:{ports[node]}"
    is_controller = node == CONTROLLER_NODE
    copies = str(min(3, len(ports)))
    return {
        "process.roles": "broker,controller" if is_controller else "broker",
        "node.id": str(node),
        "controller.quorum.voters": f"{CONTROLLER_NODE}@127.0.0.1:{controller_port}",
        "listeners": f"{address},CONTROLLER://127.0.0.1:{controller_port}" if is_controller else address,
        "advertised.listeners": address,
        "offsets.topic.replication.factor": copies,
        "transaction.state.log.replication.factor": copies,
        "default.replication.factor": copies,
        # A killed broker is fenced, and its partitions get other leaders, after this time (Kafka's default is 9 s).
        "broker.session.timeout.ms": "3000",
        "broker.heartbeat.interval.ms": "500",
    }


class EmbeddedKafkaCluster:
    """``with EmbeddedKafkaCluster(path, brokers=2) as cluster: cluster.broker(2).kill()``. Node ids start at 1."""

    def __init__(
        self,
        directory: Path,
        brokers: int = 2,
        *,
        java: Java | None = None,
        heap_mb: int = 384,
        properties: Mapping[str, str] | None = None,
        die_with_parent: bool = False,
        log_levels: Mapping[str, str] | None = None,
    ) -> None:
        controller_port, *client_ports = free_ports(brokers + 1)
        ports = dict(enumerate(client_ports, start=1))
        java, cluster_id = java or find_java(), new_cluster_id()

        def new_broker(node: int, port: int) -> EmbeddedKafka:
            given = node_properties(node, {**ports, node: port}, controller_port)
            return EmbeddedKafka(
                Path(directory) / f"broker-{node}",
                java=java,
                heap_mb=heap_mb,
                properties={**given, **(properties or {})},
                die_with_parent=die_with_parent,
                port=port,
                cluster_id=cluster_id,
                log_levels=log_levels,
            )

        self._new_broker = new_broker
        self._brokers = {node: new_broker(node, port) for node, port in ports.items()}
        self._bootstrap = ",".join(f"127.0.0.1:{port}" for port in ports.values())

    @property
    def bootstrap_servers(self) -> str:
        """Return every node's address, whether it runs or not."""
        return self._bootstrap

    @property
    def nodes(self) -> tuple[int, ...]:
        """Return the node ids; the first is the controller's."""
        return tuple(self._brokers)

    def broker(self, node: int) -> EmbeddedKafka:
        """Return one broker: ``start``, ``stop`` and ``kill`` it as any other."""
        return self._brokers[node]

    def start(self) -> EmbeddedKafkaCluster:
        """Start every broker and wait until they know one another. Raises StartupError (exit code 13)."""
        try:
            for broker in self._brokers.values():
                broker.start()
            self.await_brokers(len(self._brokers))
        except BaseException:
            self.stop()
            raise
        return self

    def add(self) -> int:
        """Start one more broker and wait until the others know it; return its node id. Raises StartupError."""
        node = max(self._brokers) + 1
        (port,) = free_ports(1)
        self._brokers[node] = self._new_broker(node, port).start()
        self.await_brokers(len(self._brokers))
        return node

    def await_brokers(self, count: int, limit_s: float = START_LIMIT_S) -> None:
        """Wait until the controller counts ``count`` running brokers. Raises StartupError."""
        from confluent_kafka.admin import AdminClient

        admin = AdminClient({"bootstrap.servers": self._brokers[CONTROLLER_NODE].bootstrap_servers})
        end_s = time.monotonic() + limit_s
        while (seen := len(admin.list_topics(timeout=10.0).brokers)) != count:
            if time.monotonic() > end_s:
                raise StartupError(
                    f"the embedded cluster has {seen} brokers after {limit_s:.0f} s, but must have {count}",
                    exit_code=EXIT_BROKER_FAILED,
                    code="CRT-1083",
                )
            time.sleep(0.1)

    def stop(self) -> None:
        """Stop every broker, the controller last: the others say goodbye to it."""
        for broker in reversed(self._brokers.values()):
            broker.stop()

    def __enter__(self) -> EmbeddedKafkaCluster:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()
