"""Records, shares, clients' properties, what the target lacks, what a group gets there."""

from __future__ import annotations

import pytest

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.connectors.mirror.filters import (
    DefaultTopicFilter,
    TopicSelection,
    group_filter,
    property_filter,
    topic_filter,
)
from spark_connect_rt.connectors.mirror.flow import Flow, reads_committed
from spark_connect_rt.connectors.mirror.mirror_checkpoint_task import GroupOffset, Translation, offsets_to_set
from spark_connect_rt.connectors.mirror.offset_syncs import TOO_OLD, OffsetSyncStore
from spark_connect_rt.connectors.mirror.policy import DefaultReplicationPolicy
from spark_connect_rt.connectors.mirror.records import Checkpoint, Heartbeat, OffsetSync
from spark_connect_rt.connectors.mirror.source_offsets import checkpoint_tasks, groups_of, partitions_of, source_tasks
from spark_connect_rt.connectors.mirror.topic_sync import (
    TopicAcl,
    TopicSetting,
    acls_to_sync,
    missing_partitions,
    settings_of_new,
    settings_to_sync,
)
from spark_connect_rt.errors import BadConfigError, DataError

POLICY = DefaultReplicationPolicy()
P0 = TopicPartition("t", 0)
FLOW = {"source.cluster.alias": "A", "target.cluster.alias": "B", "name": "m"}


@pytest.mark.parametrize(
    "record", [OffsetSync(P0, 5, 2**40), Checkpoint("g", P0, 7, 8, "méta"), Heartbeat("A", "B", 1_700_000_000_000)]
)
def test_records_are_read_back_and_invalid_ones_reported(record: OffsetSync | Checkpoint | Heartbeat) -> None:
    key, value = record.key(), record.value()
    assert type(record).decode(key, value) == record
    for bad_key, bad_value in ((key[:-1], value), (key, value[:-1]), (None, value), (key, None)):
        with pytest.raises(DataError):
            type(record).decode(bad_key, bad_value)


def test_a_checkpoint_of_a_later_version_is_not_guessed_at() -> None:
    checkpoint = Checkpoint("g", P0, 7, 8)
    with pytest.raises(DataError, match="version 1"):
        Checkpoint.decode(checkpoint.key(), b"\x00\x01" + checkpoint.value()[2:])


def test_partitions_are_dealt_one_by_one_and_groups_in_neighbourhoods() -> None:
    partitions = [TopicPartition("a-b", n) for n in range(3)] + [P0]
    tasks = source_tasks(FLOW, partitions, 3)
    assert [task["task.assigned.partitions"] for task in tasks] == ["a-b-0,t-0", "a-b-1", "a-b-2"]
    assert [task["task.index"] for task in tasks] == ["0", "1", "2"]
    assert partitions_of(tasks[0]) == [TopicPartition("a-b", 0), P0]
    shares = [groups_of(task) for task in checkpoint_tasks(FLOW, ["a", "b", "c", "d", "e"], 3)]
    assert shares == [["a", "b"], ["c", "d"], ["e"]]
    assert source_tasks(FLOW, [], 3) == checkpoint_tasks(FLOW, [], 3) == []


def test_a_client_gets_its_clusters_settings_then_its_kinds_then_its_own() -> None:
    flow = Flow.of(
        FLOW
        | {
            "source.cluster.bootstrap.servers": "a:1",
            "source.cluster.ssl.protocol": "TLSv1.3",
            "source.cluster.alias": "A",
            "consumer.max.poll.records": "7",
            "consumer.isolation.level": "read_uncommitted",
            "source.consumer.isolation.level": "read_committed",
            "consumer.client.id": "mine",
        }
    )
    assert flow.client("source", "consumer", "r") == {
        "auto.offset.reset": "earliest",
        "bootstrap.servers": "a:1",
        "ssl.protocol": "TLSv1.3",
        "max.poll.records": "7",
        "isolation.level": "read_committed",
        "client.id": "mine|A->B|m|r",
    }
    assert reads_committed(flow.config)
    assert not reads_committed(FLOW)
    assert flow.client("target", "admin", "r") == {"client.id": "A->B|m|r"}


def test_the_topic_of_offset_syncs_is_named_after_the_other_cluster() -> None:
    assert Flow.of(FLOW).offset_syncs() == ("source", "mm2-offset-syncs.B.internal")
    at_target = Flow.of({**FLOW, "offset-syncs.topic.location": "target"})
    assert at_target.offset_syncs() == ("target", "mm2-offset-syncs.A.internal")


def test_an_empty_list_of_patterns_matches_nothing_and_a_bad_one_is_named() -> None:
    assert not topic_filter({"topics": ""}).should_replicate_topic("t")
    assert topic_filter({"topics": "t|u,v.*"}).should_replicate_topic("vw")
    assert not topic_filter({}).should_replicate_topic("mm2-configs.A.internal")
    assert not group_filter({}).should_replicate_group("connect-x")
    assert group_filter({"groups.exclude": ""}).should_replicate_group("connect-x")
    with pytest.raises(BadConfigError, match="topics"):
        topic_filter({"topics": "("})


def test_missing_topics_and_partitions_are_found_and_nothing_shrinks() -> None:
    found = missing_partitions({"new": 2, "grown": 3, "less": 1}, {"A.grown": 2, "A.less": 5}, POLICY, "A")
    assert (found.topics, found.grown) == ({"new": "A.new"}, {"A.grown": 3})


def test_settings_of_a_topic_are_copied_defaults_are_the_targets_own() -> None:
    settings = [
        TopicSetting("retention.ms", "1"),
        TopicSetting("cleanup.policy", "delete", is_default=True),
        TopicSetting("min.insync.replicas", "2"),
        TopicSetting("segment.ms", "5", is_static=True),
        TopicSetting("secret", None, is_sensitive=True),
    ]
    own = property_filter({})
    assert settings_of_new(settings, own) == {"retention.ms": "1"}
    assert settings_to_sync(settings, own) == {"retention.ms": "1", "cleanup.policy": None}
    theirs = property_filter({"use.defaults.from": "source", "config.properties.exclude": "retention.*"})
    assert settings_of_new(settings, theirs) == {"cleanup.policy": "delete", "min.insync.replicas": "2"}
    assert settings_to_sync(settings, theirs) == settings_of_new(settings, theirs)


def test_read_acls_are_copied_and_write_acls_are_not() -> None:
    def acl(topic: str, operation: str, permission: str = "ALLOW", pattern: str = "LITERAL") -> TopicAcl:
        return TopicAcl(topic, pattern, "User:u", "*", operation, permission)

    wanted = DefaultTopicFilter()
    wanted.configure({})
    selection = TopicSelection(wanted, POLICY, "A", "B", True)
    given = [
        acl("t", "READ"),
        acl("t", "WRITE"),
        acl("t", "WRITE", "DENY"),
        acl("t", "ALL"),
        acl("t", "READ", pattern="PREFIXED"),
        acl("B.t", "READ"),
    ]
    assert acls_to_sync(given, selection, POLICY, "A") == [
        acl("A.t", "READ"),
        acl("A.t", "WRITE", "DENY"),
        acl("A.t", "READ"),
    ]


def translation(*syncs: tuple[int, int]) -> Translation:
    store = OffsetSyncStore()
    for upstream, downstream in syncs:
        store.add(OffsetSync(P0, upstream, downstream))
    store.loaded()
    wanted = DefaultTopicFilter()
    wanted.configure({})
    return Translation(POLICY, "A", "B", wanted, store)


def test_offsets_are_translated_never_past_what_is_known() -> None:
    store = OffsetSyncStore()
    store.add(OffsetSync(P0, 10, 110))
    assert store.translate_downstream(P0, 10) is None  # not read to the end yet
    store.loaded()
    asked = {offset: store.translate_downstream(P0, offset) for offset in (9, 10, 11, 99)}
    assert asked == {9: TOO_OLD, 10: 110, 11: 111, 99: 111}
    assert store.translate_downstream(TopicPartition("t", 1), 10) is None
    store.add(OffsetSync(P0, 3, 0))  # the source began anew
    assert store.translate_downstream(P0, 10) == 1


def test_a_checkpoint_goes_forward_unless_the_group_itself_went_back() -> None:
    rules = translation((10, 110))
    place = TopicPartition("A.t", 0)
    first = Checkpoint("g", place, 50, 111, "m")
    assert rules.checkpoints("g", {P0: GroupOffset(50, "m")}, {}) == [first]
    assert rules.checkpoints("g", {P0: GroupOffset(50)}, {place: first}) == []
    assert rules.checkpoints("g", {P0: GroupOffset(60)}, {place: Checkpoint("g", place, 50, 500)}) == []
    back = rules.checkpoints("g", {P0: GroupOffset(10)}, {place: Checkpoint("g", place, 50, 500)})
    assert back == [Checkpoint("g", place, 10, 110)]
    assert rules.checkpoints("g", {P0: GroupOffset(9)}, {}) == []
    assert rules.checkpoints("g", {TopicPartition("x.replica", 0): GroupOffset(10)}, {}) == []


def test_a_topic_that_came_from_the_target_is_checkpointed_under_its_own_name() -> None:
    rules = translation()
    rules.syncs.add(OffsetSync(TopicPartition("B.u", 1), 4, 4))
    (checkpoint,) = rules.checkpoints("g", {TopicPartition("B.u", 1): GroupOffset(4)}, {})
    assert checkpoint.partition == TopicPartition("u", 1)


def test_an_idle_group_is_set_forward_only() -> None:
    places = [TopicPartition("A.t", n) for n in range(4)]
    checkpoints = {place: Checkpoint("g", place, 50, 10) for place in places}
    committed = {places[0]: 10, places[1]: 9, places[2]: -1}
    assert offsets_to_set(checkpoints, committed) == {places[1]: 10, places[2]: 10, places[3]: 10}
