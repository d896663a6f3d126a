"""Connectors whose topics were moved by others: what is continued, what fails, and what is counted."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.connectors.mirror.config import MIRROR_SOURCE
from spark_connect_rt.connectors.mirror.mirror_source import FlowTopics, MirrorSourceConnector
from spark_connect_rt.connectors.mirror.mirror_source_task import TargetLogs
from spark_connect_rt.connectors.topics import kafka_settings
from spark_connect_rt.connectors.topics.log_policy import LogPolicy, is_of_another, offset_of
from spark_connect_rt.errors import BadConfigError, ConnectError
from spark_connect_rt.kafka.reading.log_moves import LogMove

P0 = TopicPartition("t", 0)
GAP, RECREATED = LogMove(P0, 5, 9, recreated=False), LogMove(P0, 5, 0, recreated=True)
MIRROR = {"source.cluster.alias": "a"}
KAFKA = {"source.bootstrap.servers": "b:1", "topics": "t"}


class Counts:
    """Takes note of what is counted."""

    def __init__(self) -> None:
        self.counted: list[tuple[str, int, str]] = []
        self.events: list[tuple[str, dict[str, str | int]]] = []

    def count(self, name: str, amount: int, group: str, **tags: str) -> None:
        self.counted.append((name, amount, f"{tags['topic']}-{tags['partition']}"))

    def record_event(self, summary: str, **details: str | int) -> None:
        self.events.append((summary, details))


def policy(**values: str) -> tuple[LogPolicy, Counts]:
    counts: Any = Counts()
    given = {name.replace("_", "."): value for name, value in values.items()}
    return LogPolicy(MIRROR_SOURCE.parse({**MIRROR, **given}), counts, counts.record_event), counts


def test_a_move_is_a_warning_with_a_count_by_default(caplog: pytest.LogCaptureFixture) -> None:
    decides, counts = policy()
    decides.decide(GAP)
    decides.decide(RECREATED)
    assert counts.counted == [("missed-records", 4, "t-0"), ("recreated-topics", 1, "t-0")]
    assert "t-0: 4 offsets from 5 on were deleted before they were read" in caplog.text
    assert "deleted and created again; the old one was read up to offset 5; it continues at offset 0" in caplog.text


def test_each_move_is_an_event_of_the_group() -> None:
    decides, counts = policy()
    decides.decide(GAP)
    decides.decide(RECREATED)
    (gap, of_gap), (recreated, of_recreated) = counts.events
    assert "4 offsets from 5 on were deleted" in gap
    assert of_gap == {"topic": "t", "partition": 0, "found": 9, "wanted": 5}
    assert "deleted and created again" in recreated
    assert of_recreated["found"] == 0


def test_target_that_was_created_again_between_two_runs_is_an_event() -> None:
    logs, counts = targets("continue", P0)
    logs.arrived(P0, 0, 3)
    logs.arrived(P0, 0, 3)  # while it runs the connector notices it
    ((text, details),) = counts.events
    assert "after an earlier run" in text
    assert details == {"topic": "t", "partition": 0}


def test_each_kind_of_move_fails_where_its_setting_says_so() -> None:
    decides, _ = policy(on_gap="FAIL")
    with pytest.raises(ConnectError, match=r"setting on.gap=fail\). Set on.gap=continue"):
        decides.decide(GAP)
    decides.decide(RECREATED)
    decides, _ = policy(on_topic_recreated="fail")
    decides.decide(GAP)
    with pytest.raises(ConnectError, match=r"on\.topic\.recreated=fail"):
        decides.decide(RECREATED)
    for declared, config in ((MIRROR_SOURCE, MIRROR), (kafka_settings.SOURCE, KAFKA)):
        with pytest.raises(BadConfigError, match=r"on\.gap"):
            declared.parse({**config, "on.gap": "ignore"})


def test_offsets_say_which_topic_they_belong_to_and_older_ones_belong_to_any() -> None:
    decides, _ = policy()
    watch = decides.watch([P0, TopicPartition("t", 1)], [offset_of(7, "one"), offset_of(7, None)])
    assert watch.topic_id(P0) == "one"
    assert watch.is_another(P0, "two")
    assert not watch.is_another(TopicPartition("t", 1), "two")
    assert offset_of(7, None) == {"offset": 7}  # as Java writes it
    assert is_of_another(offset_of(7, "one"), "two")
    assert not is_of_another(offset_of(7, "one"), None)
    assert not is_of_another({"offset": 7}, "two")


def targets(setting: str, *copied: TopicPartition) -> tuple[TargetLogs, Counts]:
    counts: Any = Counts()
    values = MIRROR_SOURCE.parse({**MIRROR, "on.topic.recreated": setting})
    return TargetLogs(values, counts, copied, counts.record_event), counts


def test_a_target_that_was_created_again_is_noticed_at_the_first_record_and_later(
    caplog: pytest.LogCaptureFixture,
) -> None:
    logs, counts = targets("continue", P0)
    logs.arrived(P0, 0, 3)
    assert "deleted and created again: records arrive at offset 0, after an earlier run" in caplog.text
    logs.arrived(P0, 3, 1)
    logs.arrived(P0, -1, 1)
    logs.arrived(P0, 0, 5)
    assert "records arrive at offset 0, after offset 3" in caplog.text
    assert counts.counted == [("recreated-target-topics", 1, "t-0")] * 2
    logs.check()


def test_a_target_fails_only_where_no_altered_offset_explains_it() -> None:
    logs, _ = targets("fail", P0)
    logs.arrived(P0, 0, 3)
    logs.check()
    logs.arrived(P0, 1, 1)
    with pytest.raises(ConnectError, match="reset the connector's offsets"):
        logs.check()


def test_an_unchanged_target_is_not_reported() -> None:
    logs, counts = targets("fail", P0)
    logs.arrived(P0, 17, 3)
    logs.arrived(TopicPartition("t", 1), 0, 3)
    logs.arrived(P0, 20, 1)
    logs.check()
    assert counts.counted == []


class TargetTopics:
    """The ids of the topics at a target, as an admin client answers."""

    def __init__(self) -> None:
        self.ids = {"a.t": "one", "a.u": "one"}
        self.failures: list[Exception] = []

    def topic_ids(self, topics: Sequence[str]) -> dict[str, str]:
        return {topic: self.ids[topic] for topic in topics if topic in self.ids}

    def raise_error(self, error: Exception) -> None:
        self.failures.append(error)


@pytest.mark.parametrize("setting", ["continue", "fail"])
def test_connector_notices_a_target_topic_that_was_created_again(setting: str) -> None:
    clusters = {"source.cluster.bootstrap.servers": "a:1", "target.cluster.bootstrap.servers": "b:1"}
    config = {**MIRROR, **clusters, "topics": "t,u", "on.topic.recreated": setting}
    connector, target, events = MirrorSourceConnector(), TargetTopics(), Counts()
    context: Any = SimpleNamespace(record_event=events.record_event, raise_error=target.raise_error)
    connector.context, connector._values = context, MIRROR_SOURCE.parse(config)
    connector._topics = topics = FlowTopics(config, connector._values)
    topics.close()
    topics._target = target  # type: ignore[assignment]
    topics._copied = {"t", "u"}
    connector._look_at_target()
    del target.ids["a.t"]
    connector._look_at_target()
    assert events.events == []
    target.ids["a.t"] = "two"
    connector._look_at_target()
    connector._look_at_target()
    ((text, details),) = events.events
    assert "topic a.t at the target was deleted and created again" in text
    assert details == {"topic": "a.t"}
    assert len(target.failures) == (setting == "fail")
