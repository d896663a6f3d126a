"""Connectors whose topics were moved by others: what is continued, what fails, and what is counted."""

from __future__ import annotations

from typing import Any

import pytest

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.connectors.mirror.config import MIRROR_SOURCE
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

    def count(self, name: str, amount: int, group: str, **tags: str) -> None:
        self.counted.append((name, amount, f"{tags['topic']}-{tags['partition']}"))


def policy(**values: str) -> tuple[LogPolicy, Counts]:
    counts: Any = Counts()
    given = {name.replace("_", "."): value for name, value in values.items()}
    return LogPolicy(MIRROR_SOURCE.parse({**MIRROR, **given}), counts), counts


def test_a_move_is_a_warning_with_a_count_by_default(caplog: pytest.LogCaptureFixture) -> None:
    decides, counts = policy()
    decides.decide(GAP)
    decides.decide(RECREATED)
    assert counts.counted == [("missed-records", 4, "t-0"), ("recreated-topics", 1, "t-0")]
    assert "t-0: 4 offsets from 5 on were deleted before they were read" in caplog.text
    assert "deleted and created again; the old one was read up to offset 5; it continues at offset 0" in caplog.text


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
    return TargetLogs(values, counts, copied), counts


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


def test_a_target_that_goes_on_is_nothing_to_speak_of() -> None:
    logs, counts = targets("fail", P0)
    logs.arrived(P0, 17, 3)
    logs.arrived(TopicPartition("t", 1), 0, 3)
    logs.arrived(P0, 20, 1)
    logs.check()
    assert counts.counted == []
