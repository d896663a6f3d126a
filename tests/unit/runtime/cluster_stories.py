"""What the cluster tests share: configurations, and what ought to have been emitted."""

from collections.abc import Mapping, Set

from spark_connect_rt.api.config_provider import ConfigProvider
from spark_connect_rt.group.subprotocol import is_own_group
from spark_connect_rt.runtime.herder.herder_requests import CreateConnector
from spark_connect_rt.runtime.values import ConfigWritten
from spark_connect_rt.testing.in_process_cluster import InProcessCluster, InProcessWorker
from spark_connect_rt.topics.config_records import TargetState


class Said(ConfigProvider):
    """A config provider: ``${said:VALUE:it}`` is VALUE."""

    def get(self, path: str, keys: Set[str] | None = None) -> Mapping[str, str]:
        return dict.fromkeys(keys or (), path)


def source(records: int = 10, tasks: int = 1, **more: str) -> dict[str, str]:
    config = {"connector.class": "MemorySource", "tasks.max": str(tasks), "topic": "t", "records": str(records)}
    return {**config, **more}


def create(
    cluster: InProcessCluster, name: str, config: dict[str, str], state: TargetState | None = None
) -> ConfigWritten:
    return cluster.on_leader(lambda herder: herder.submit(CreateConnector(name, config, state)))


def emitted(cluster: InProcessCluster) -> list[str]:
    return sorted(value.decode() for value in cluster.topics.values("t"))


def expected(task: str, records: int) -> list[str]:
    return sorted(f"{task}:{number}" for number in range(records))


def offers_javas_names_only(worker: InProcessWorker) -> None:
    """Make a worker join as a Java worker does: without our own protocol names."""
    join = worker.member.join
    worker.member.join = lambda offers: join([o for o in offers if not is_own_group(o[0])])  # type: ignore[method-assign]
