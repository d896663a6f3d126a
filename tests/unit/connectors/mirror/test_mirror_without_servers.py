"""A mirror connector that nobody told where its cluster is has FAILED at once, with the reason, and can be deleted."""

from __future__ import annotations

import time
from collections.abc import Mapping

import pytest

from spark_connect_rt.api.connector import SourceConnector
from spark_connect_rt.connectors.mirror.mirror_checkpoint import MirrorCheckpointConnector
from spark_connect_rt.connectors.mirror.mirror_heartbeat import MirrorHeartbeatConnector
from spark_connect_rt.connectors.mirror.mirror_source import MirrorSourceConnector
from spark_connect_rt.errors import BadConfigError
from spark_connect_rt.runtime.herder.herder_requests import DeleteConnector
from spark_connect_rt.testing.in_process_cluster import InProcessCluster
from tests.unit.runtime.cluster_stories import create

FLOW = {"source.cluster.alias": "A", "target.cluster.alias": "B", "name": "m"}


@pytest.mark.parametrize(
    "more", [{}, {"target.cluster.bootstrap.servers": " ", "source.cluster.bootstrap.servers": ""}]
)
@pytest.mark.parametrize("made", [MirrorHeartbeatConnector, MirrorCheckpointConnector, MirrorSourceConnector])
def test_the_setting_and_the_client_are_named_at_once(made: type[SourceConnector], more: Mapping[str, str]) -> None:
    began_s = time.monotonic()
    with pytest.raises(BadConfigError, match=r"bootstrap\.servers.*no default value.*A->B\|m\|"):
        made().start({**FLOW, **more})
    assert time.monotonic() - began_s < 5


def test_a_heartbeat_without_servers_has_failed_and_leaves_no_thread_behind(caplog: pytest.LogCaptureFixture) -> None:
    with InProcessCluster({"MirrorHeartbeat": MirrorHeartbeatConnector}) as cluster:
        worker = cluster.add_worker()
        create(cluster, "m", {**FLOW, "connector.class": "MirrorHeartbeat"})
        cluster.until(lambda: cluster.states("m") == {"m": "FAILED"})
        assert "bootstrap.servers" in (worker.herder.views.connector_status("m").connector.trace or "")
        cluster.on_leader(lambda herder: herder.submit(DeleteConnector("m")))
        cluster.until(lambda: not cluster.states("m"))
    assert "abandoned" not in caplog.text
