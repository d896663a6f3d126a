"""Herders in a group of their own, and with a Java worker or an older one of ours in between: what they speak."""

from __future__ import annotations

from spark_connect_rt.group.compact.form import is_compact
from spark_connect_rt.group.membership import Timing
from spark_connect_rt.testing.in_process_cluster import InProcessCluster
from spark_connect_rt.testing.memory_connectors import faults
from tests.unit.runtime.cluster_stories import create, offers_javas_names_only, source
from tests.unit.runtime.test_several_workers import balanced

PATIENT = Timing(session_ms=10_000, heartbeat_ms=20, rebalance_ms=60_000)


def spoken(cluster: InProcessCluster) -> str:
    """Return the protocol of the group's last assignment, as the leader's event log names it."""
    lines = [line.reason for line in cluster.leader().views.events() if "): leader http" in line.reason]
    return lines[-1].partition("(")[2].partition(")")[0]


def test_joining_java_worker_switches_the_group_to_java_until_it_leaves() -> None:
    faults.clear()
    with InProcessCluster(timing=PATIENT) as cluster:
        cluster.add_worker("w1")
        cluster.add_worker("w2")
        create(cluster, "a", source(records=20, tasks=7))
        cluster.until(lambda: balanced(cluster, 7))
        assert spoken(cluster) == "connectrt-sessioned-compact"
        java = cluster.add_worker("w3")
        offers_javas_names_only(java)
        cluster.until(lambda: balanced(cluster, 7))
        assert spoken(cluster) == "sessioned"
        older = cluster.add_worker("w4")
        join = older.member.join
        older.member.join = lambda offers: join([o for o in offers if not is_compact(o[0])])  # type: ignore[method-assign, assignment]
        cluster.stop_worker("w3")
        cluster.until(lambda: balanced(cluster, 7))
        assert spoken(cluster) == "connectrt-sessioned"  # one of ours from before the compact form
        cluster.stop_worker("w4")
        cluster.until(lambda: balanced(cluster, 7))
        assert spoken(cluster) == "connectrt-sessioned-compact"
