"""Kafka's own connectors and transformations in Java Connect, in the Java host, in Python: equal topics."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from confluent_kafka import Producer

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka
from spark_connect_rt.kafka.admin import KafkaAdmin, TopicSpec
from tests.support.java_beside_ours import JavaBesideOurs
from tests.support.topic_content import Content

JAVA = {"connectrt.runtime": "java"}
JSON = "org.apache.kafka.connect.json.JsonConverter"
SMT = "org.apache.kafka.connect.transforms"
pytestmark = pytest.mark.timeout(3000)
LINES = 500
WHERE = {"java": ("java", {}), "ours": ("ours", JAVA), "python": ("ours", {"connectrt.runtime": "python"})}


def chain(**types: str) -> dict[str, str]:
    """Return a chain: alias=Type; settings by ``alias__setting``, an underscore for each dot."""
    config = {"transforms": ",".join(name for name in types if "__" not in name)}
    for name, value in types.items():
        alias, _, setting = name.partition("__")
        config[f"transforms.{alias}.{setting.replace('_', '.') or 'type'}"] = value if setting else f"{SMT}.{value}"
    return config


CHAINS: Mapping[str, dict[str, str]] = {
    "string": {},
    "json": {"value.converter": JSON},
    "hoist": {"value.converter": JSON, **chain(h="HoistField$Value", h__field="line")},
    "insert": {
        "value.converter": JSON,
        **chain(
            h="HoistField$Value",
            h__field="line",
            i="InsertField$Value",
            i__static_field="from",
            i__static_value="here",
            k="ValueToKey",
            k__fields="from",
            m="MaskField$Value",
            m__fields="from",
        ),
        "key.converter": JSON,
    },
    "shape": {
        "value.converter": JSON,
        **chain(
            h="HoistField$Value",
            h__field="line",
            n="HoistField$Value",
            n__field="outer",
            f="Flatten$Value",
            f__delimiter="_",
            r="ReplaceField$Value",
            r__renames="outer_line:text",
            s="SetSchemaMetadata$Value",
            s__schema_name="lines",
            s__schema_version="3",
        ),
    },
    "headers": {
        **chain(
            h="InsertHeader",
            h__header="a",
            h__value_literal="7",
            g="InsertHeader",
            g__header="b",
            g__value_literal="x",
            d="DropHeaders",
            d__headers="b",
        ),
    },
    "cast": {"value.converter": JSON, **chain(c="Cast$Value", c__spec="int64")},
    "filter": {
        **chain(f="Filter", f__predicate="never"),
        "transforms.f.negate": "false",
        "predicates": "never",
        "predicates.never.type": f"{SMT}.predicates.RecordIsTombstone",
    },
}


Where = Mapping[str, tuple[str, Mapping[str, str]]]


def create(both: JavaBesideOurs, case: str, config: Mapping[str, str], places: Where = WHERE) -> None:
    """Create the connector on each of the three, each with a topic of its own."""
    for where, (side, more) in places.items():
        routed = {name: value.replace("{where}", where) for name, value in config.items()}
        both.worker(side).rest.create(f"{case}-{where}", {"tasks.max": "1", **routed, **more})


def contents(both: JavaBesideOurs, topic: str, count: int, places: Where = WHERE) -> dict[str, list[Content]]:
    """Return the first ``count`` records of each topic, when they are there."""
    deadline = time.monotonic() + 180
    for where in places:
        while (held := both.reader.count(topic.replace("{where}", where))) < count:
            assert time.monotonic() < deadline, f"{topic} of {where} holds {held} of {count}"
            time.sleep(0.1)
    return {where: both.reader.read(topic.replace("{where}", where))[:count] for where in places}


@pytest.mark.parametrize("case", CHAINS)
def test_lines_through_a_chain_are_the_same_three_times(case: str, both: JavaBesideOurs, tmp_path: Path) -> None:
    file = tmp_path / "lines.txt"
    file.write_text("".join(f"{number}\n" for number in range(LINES)))
    topic = f"{{where}}.lines.{case}"
    source = {"connector.class": "FileStreamSource", "file": str(file), "topic": topic}
    create(both, f"lines-{case}", source | CHAINS[case])
    found = contents(both, topic, LINES)
    assert found["ours"] == found["java"]
    assert found["python"] == found["java"]


def test_file_sinks_write_the_same_three_times(both: JavaBesideOurs, tmp_path: Path) -> None:
    file = tmp_path / "in.txt"
    file.write_text("".join(f"line {number}\n" for number in range(LINES)))
    both.java.rest.create("for-sinks", {"connector.class": "FileStreamSource", "file": str(file), "topic": "for-sinks"})
    sink = {"connector.class": "FileStreamSink", "topics": "for-sinks", "file": str(tmp_path / "{where}.txt")}
    create(both, "file-sink", sink)
    deadline = time.monotonic() + 60
    for where in WHERE:
        written = tmp_path / f"{where}.txt"
        while not written.exists() or written.read_text() != file.read_text():
            assert time.monotonic() < deadline, f"{where}: {written.exists() and written.read_text()[-100:]!r}"
            time.sleep(0.1)


def test_a_mirror_source_copies_the_same_three_times(both: JavaBesideOurs, broker: EmbeddedKafka) -> None:
    servers = broker.bootstrap_servers
    admin = KafkaAdmin({"bootstrap.servers": servers})
    admin.create_topic(TopicSpec("to-mirror", 2, 1, {}))
    admin.close()
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})
    for number in range(LINES):
        headers = [("h", b"%d" % number), ("h", None)]
        value = None if number % 50 == 0 else b"value %d" % number
        producer.produce("to-mirror", value, b"%d" % (number % 7), partition=number % 2, headers=headers)
    assert producer.flush(30) == 0
    bytes_ = "org.apache.kafka.connect.converters.ByteArrayConverter"
    config = {
        "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
        "source.cluster.alias": "{where}",
        "target.cluster.alias": "target-{where}",
        "source.cluster.bootstrap.servers": servers,
        "target.cluster.bootstrap.servers": servers,
        "topics": "to-mirror",
        "replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        "sync.topic.acls.enabled": "false",
        "key.converter": bytes_,
        "value.converter": bytes_,
        "header.converter": bytes_,
    }
    create(both, "mirror", config)
    found = contents(both, "{where}.to-mirror", LINES)
    assert found["ours"] == found["java"] == both.reader.read("to-mirror")
    assert found["python"] == found["java"]


def test_heartbeats_of_mirrors_arrive(both: JavaBesideOurs, broker: EmbeddedKafka) -> None:
    config = {
        "connector.class": "org.apache.kafka.connect.mirror.MirrorHeartbeatConnector",
        "source.cluster.alias": "{where}",
        "target.cluster.alias": "target",
        "source.cluster.bootstrap.servers": broker.bootstrap_servers,
        "target.cluster.bootstrap.servers": broker.bootstrap_servers,
        "heartbeats.topic.replication.factor": "1",
        "emit.heartbeats.interval.seconds": "1",
        "key.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
        "value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
    }
    create(both, "heartbeat", config)
    deadline = time.monotonic() + 60
    while (
        len(
            keys := {content.key for content in both.reader.read("heartbeats")}
            if both.reader.count("heartbeats")
            else ()
        )
        < 3
    ):
        assert time.monotonic() < deadline, keys
        time.sleep(0.5)
