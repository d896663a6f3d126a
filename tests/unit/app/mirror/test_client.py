"""What the names of a cluster's topics tell (KIP-382's MirrorClient)."""

from __future__ import annotations

from spark_connect_rt.app.mirror.client import MirroredTopics, checkpoints
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.connectors.mirror.policy import DefaultReplicationPolicy, IdentityReplicationPolicy
from spark_connect_rt.connectors.mirror.records import Checkpoint

HEARTBEATS = {"heartbeats", "B.heartbeats", "B.A.heartbeats", "C.heartbeats"}
CHECKPOINTS = {"A.checkpoints.internal", "B.checkpoints.internal"}
OTHERS = {"orders", "B.orders", "B.A.orders", "mm2-offset-syncs.B.internal", "__consumer_offsets"}


def test_topics_show_the_path_of_their_records() -> None:
    topics = MirroredTopics(DefaultReplicationPolicy(), frozenset(HEARTBEATS | CHECKPOINTS | OTHERS))
    assert topics.heartbeat_topics() == HEARTBEATS
    assert topics.checkpoint_topics() == CHECKPOINTS
    assert topics.upstream_clusters() == {"A", "B", "C"}
    assert [topics.replication_hops(alias) for alias in ("A", "B", "C", "D")] == [2, 1, 1, None]
    assert topics.remote_topics("B") == {"B.heartbeats", "B.A.heartbeats", "B.orders", "B.A.orders"}
    assert topics.remote_topics() == topics.remote_topics("B") | {"C.heartbeats"}


def test_names_that_do_not_change_end_the_way_back() -> None:
    topics = MirroredTopics(IdentityReplicationPolicy(source_alias="A"), frozenset({"orders", "A.heartbeats"}))
    assert (topics.replication_hops("A"), topics.upstream_clusters()) == (1, {"A"})
    assert topics.remote_topics("A") == {"orders", "A.heartbeats"}


def test_the_newest_checkpoint_of_each_group_and_partition_counts() -> None:
    place = TopicPartition("A.orders", 0)
    first, second = Checkpoint("g", place, 10, 8), Checkpoint("g", place, 20, 18)
    records = [(checkpoint.key(), checkpoint.value()) for checkpoint in (first, second)]
    assert checkpoints([(b"?", b"?"), *records, (None, None)]) == {"g": {place: second}}
