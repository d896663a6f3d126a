"""What is put to MirrorMaker's classes, and what ours answer."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.config.config_def import REQUIRED, Password, parse_value, text_of
from spark_connect_rt.connectors.mirror.filters import (
    TopicFilter,
    TopicSelection,
    group_filter,
    property_filter,
    topic_filter,
)
from spark_connect_rt.connectors.mirror.flow import Flow
from spark_connect_rt.connectors.mirror.mirror_checkpoint import MirrorCheckpointConnector
from spark_connect_rt.connectors.mirror.mirror_heartbeat import MirrorHeartbeatConnector
from spark_connect_rt.connectors.mirror.mirror_source import MirrorSourceConnector
from spark_connect_rt.connectors.mirror.offset_syncs import OffsetRun, OffsetSyncQueue, OffsetSyncStore
from spark_connect_rt.connectors.mirror.policy import POLICIES
from spark_connect_rt.connectors.mirror.records import Checkpoint, Heartbeat, OffsetSync
from spark_connect_rt.connectors.mirror.source_offsets import checkpoint_tasks, source_tasks
from spark_connect_rt.errors import ConnectError

Case = dict[str, Any]
P = TopicPartition("t", 0)
CONNECTORS = {cls.__name__: cls for cls in (MirrorSourceConnector, MirrorCheckpointConnector, MirrorHeartbeatConnector)}
TOPICS = [
    *("t", "A.t", "B.t", "B.A.t", "A.B.t", "C.B.t", "x.y.z", "", ".", "..", "a.", ".a", "a..b", "__x", "_x"),
    *("heartbeats", "A.heartbeats", "B.heartbeats", "C.A.heartbeats", "myheartbeats", "A-heartbeats"),
    *("A.checkpoints.internal", "A-checkpoints-internal", "mm2-offset-syncs.B.internal", "x-internal", "x_internal"),
]
NAMES = [
    *(
        "orders",
        "orders-1",
        "a.internal",
        "a-internal",
        "x.replica",
        "__consumer_offsets",
        "connect-x",
        "console-consumer-1",
    ),
    *("retention.ms", "min.insync.replicas", "message.timestamp.type", "follower.replication.throttled.replicas", ""),
]
FLOW = {"name": "m", "connector.class": "x", "source.cluster.alias": "A", "target.cluster.alias": "B"}
CLIENTS = {
    "source.cluster.bootstrap.servers": "a:1",
    "source.cluster.security.protocol": "SSL",
    "source.cluster.ssl.truststore.location": "f",
    "source.cluster.linger.ms": "3",
    "source.cluster.sasl.mechanism": "PLAIN",
    "target.cluster.bootstrap.servers": "b:1",
    "target.cluster.client.id": "no",
    "consumer.fetch.min.bytes": "2",
    "consumer.client.id": "mine",
    "source.consumer.isolation.level": "read_committed",
    "target.producer.linger.ms": "7",
    "producer.acks": "1",
    "admin.retries": "4",
    "source.admin.bootstrap.servers": "a:2",
}


def cases() -> list[Case]:
    """Return every case, the same ones each time."""
    chance = random.Random(8)
    configs = ({}, {"replication.policy.separator": "-"}, {"source.cluster.alias": "A"})
    flat = {"replication.policy.separator": "_", "replication.policy.internal.topic.separator.enabled": "false"}
    found: list[Case] = [{"what": "settings", "class": name} for name in CONNECTORS]
    found += [
        {"what": "policy", "class": name.rpartition(".")[2], "config": config, "topics": TOPICS}
        for name in POLICIES
        for config in (*configs, flat)
    ]
    lists = ({}, {"topics": "", "groups": ""}, {"topics": "orders, x.*", "topics.exclude": "", "groups": "orders|a.*"})
    shadow = {"config.properties.exclude": "ret.*,min.*", "use.defaults.from": "source", "groups.exclude": ""}
    found += [{"what": "filters", "config": config, "names": NAMES} for config in (*lists, shadow)]
    for text in ("g", "", "grüße 😀"):
        numbers = {"partition": chance.randrange(2**31), "first": chance.randrange(2**62), "second": -1}
        found.append({"what": "records", "topic": text + "t", "text": text, **numbers})
    found += [_store_case(chance) for _ in range(60)]
    found += [_syncs_case(chance) for _ in range(30)]
    partitions = [["a-b", 0], ["a-b", 1], ["a-b", 2], ["c", 0], ["c", 1]]
    groups = ["g1", "g2", "g3", "g4", "g5", "g6", "g7"]
    found += [
        {"what": "shares", "config": FLOW, "partitions": partitions, "groups": groups, "max_tasks": most}
        for most in (1, 2, 3, 5, 9)
    ]
    target = {"offset-syncs.topic.location": "target"}
    found += [{"what": "clients", "config": config} for config in (FLOW, FLOW | CLIENTS, FLOW | CLIENTS | target)]
    found += [{"what": "alter", "class": name, "offsets": _offsets()} for name in CONNECTORS]
    return found


def _store_case(chance: random.Random) -> Case:
    steps: list[Any] = []
    upstream, downstream, loaded_at = chance.randrange(50), chance.randrange(50), chance.randrange(30)
    for number in range(60):
        if number == loaded_at:
            steps.append("loaded")
        back = chance.random() < 0.02
        gap = chance.choice((1, 2, 100, 10_000, 2**40))
        upstream, downstream = (upstream // 2, downstream) if back else (upstream + gap, downstream + max(1, gap - 1))
        steps.append([upstream, downstream])
        steps += [[chance.randrange(upstream + 10)], [upstream]]
    return {"what": "store", "must_read_to_end": chance.random() < 0.5, "steps": steps}


def _syncs_case(chance: random.Random) -> Case:
    runs, upstream, downstream = [], 0, 0
    for _ in range(chance.randrange(1, 8)):
        upstream += chance.choice((0, 0, 1, 5))
        downstream = chance.choice((downstream, downstream, downstream + 3, 0))
        runs.append([upstream, downstream, chance.randrange(1, 300)])
        upstream, downstream = upstream + runs[-1][2], downstream + runs[-1][2]
    return {"what": "syncs", "max_lag": chance.choice((-1, 0, 1, 10, 100)), "runs": runs}


def _offsets() -> list[Any]:
    place = {"cluster": "A", "topic": "t", "partition": 0, "group": "g"}
    place |= {"sourceClusterAlias": "A", "targetClusterAlias": "B"}
    bad = [{key: value for key, value in place.items() if key != gone} for gone in place]
    bad += [{**place, "partition": number} for number in (-1, 2**31, "0")]
    bad += [{**place, key: 1} for key in ("cluster", "topic", "group", "sourceClusterAlias")]
    pairs: list[Any] = [[partition, {"offset": 0}] for partition in (place, *bad)]
    pairs += [[place, offset] for offset in ({"offset": 5}, {"offset": -1}, {"offset": "0"}, {"x": 0}, None)]
    return [*pairs, [{}, None]]


class _Everything(TopicFilter):
    def should_replicate_topic(self, topic: str) -> bool:
        return True


def settings(case: Case) -> Any:
    """Return what ours declares: name, type, whether required, default, importance."""
    found = []
    for key in CONNECTORS[case["class"]]().config_def():
        default = None if key.default is REQUIRED else parse_value(key.type, key.default)
        text = "hidden" if isinstance(default, Password) else text_of(default)
        found.append([key.name, key.type.value, key.required, text, key.importance.value])
    return found


def policy(case: Case) -> Any:
    """Return what a policy makes of each topic."""
    replication_policy = POLICIES[f"org.apache.kafka.connect.mirror.{case['class']}"]()
    replication_policy.configure(case["config"])
    selection = TopicSelection(_Everything(), replication_policy, "none of the topics'", "B", True)
    return [
        [
            *(
                replication_policy.format_remote_topic("A", topic),
                replication_policy.topic_source(topic),
                replication_policy.upstream_topic(topic),
            ),
            *(
                replication_policy.original_topic(topic),
                replication_policy.is_internal_topic(topic),
                replication_policy.is_heartbeats_topic(topic),
            ),
            *(replication_policy.is_checkpoints_topic(topic), topic in selection),
            *(replication_policy.offset_syncs_topic(topic), replication_policy.checkpoints_topic(topic)),
        ]
        for topic in case["topics"]
    ]


def filters(case: Case) -> Any:
    """Return what the three filters say of each name."""
    topics, groups, properties = (made(case["config"]) for made in (topic_filter, group_filter, property_filter))
    return [
        [
            topics.should_replicate_topic(name),
            groups.should_replicate_group(name),
            properties.should_replicate_config_property(name),
            properties.should_replicate_source_default(name),
        ]
        for name in case["names"]
    ]


def records(case: Case) -> Any:
    """Return keys and values of the three records."""
    place, text = TopicPartition(case["topic"], case["partition"]), case["text"]
    first, second = case["first"], case["second"]
    made = (
        OffsetSync(place, first, second),
        Checkpoint(text, place, first, second, text),
        Heartbeat(text, place.topic, first),
    )
    return [data.hex() for record in made for data in (record.key(), record.value())]


def store(case: Case) -> Any:
    """Return the translations asked for."""
    offset_sync_store, found = OffsetSyncStore(must_read_to_end=case["must_read_to_end"]), []
    for step in case["steps"]:
        if step == "loaded":
            offset_sync_store.loaded()
        elif len(step) == 2:
            offset_sync_store.add(OffsetSync(P, *step))
        else:
            found.append(offset_sync_store.translate_downstream(P, step[0]))
    return found


def syncs(case: Case) -> Any:
    """Return what is synced at once."""
    queue, found = OffsetSyncQueue(case["max_lag"]), []
    for run in case["runs"]:
        for _ in queue.take_in(P, OffsetRun(*run)):
            sync = queue.take()
            assert sync is not None
            found.append([sync.upstream_offset, sync.downstream_offset])
    return found


def shares(case: Case) -> Any:
    """Return the configurations of both kinds of tasks."""
    partitions = [TopicPartition(*partition) for partition in case["partitions"]]
    most = case["max_tasks"]
    return [source_tasks(case["config"], partitions, most), checkpoint_tasks(case["config"], case["groups"], most)]


def clients(case: Case) -> Any:
    """Return the properties of six clients and two topics' names."""
    flow = Flow.of(case["config"])
    sides = ("source", "target")
    found: list[Any] = [flow.client(side, kind, "role") for side in sides for kind in ("consumer", "producer", "admin")]
    for consumer in (found[0], found[3]):
        consumer["enable.auto.commit"] = "false"  # none of our consumers ever does
    return [*found, flow.offset_syncs()[1], flow.checkpoints_topic()]


def alter(case: Case) -> Any:
    """Return which changes of offsets are refused."""

    def answer(pair: Any) -> Any:
        try:
            return CONNECTORS[case["class"]]().alter_offsets({}, [tuple(pair)])
        except ConnectError:
            return "refused"

    return list(map(answer, case["offsets"]))


OURS: dict[str, Callable[[Case], Any]] = {
    function.__name__: function
    for function in (settings, policy, filters, records, store, syncs, shares, clients, alter)
}
