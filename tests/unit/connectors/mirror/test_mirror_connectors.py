"""What the mirror connectors refuse, and which record at the target is which of the source."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

import pyarrow as pa
import pytest

from spark_connect_rt.api.records import Delivered
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.connectors.mirror.connector_parts import (
    Rounds,
    base_problems,
    checkpoint_problems,
    source_problems,
)
from spark_connect_rt.connectors.mirror.mirror_source_task import UpstreamOffsets
from spark_connect_rt.connectors.mirror.offset_syncs import OffsetRun
from spark_connect_rt.errors import ConnectError

HERE, THERE = TopicPartition("t", 0), TopicPartition("A.t", 0)


def offsets(*numbers: int) -> pa.Array:
    return pa.array(numbers, pa.int64())


def test_records_are_matched_in_their_order_however_they_are_cut() -> None:
    under_way = UpstreamOffsets()
    under_way.add(THERE, HERE, offsets(10, 11, 12, 13))
    under_way.add(THERE, HERE, offsets(20, 23))  # compacted
    assert under_way.matched(Delivered("A.t", 0, 100, 3)) == [(HERE, OffsetRun(10, 100, 3))]
    assert under_way.matched(Delivered("A.t", 0, 103, 3)) == [
        (HERE, OffsetRun(13, 103, 1)),
        (HERE, OffsetRun(20, 104, 1)),
        (HERE, OffsetRun(23, 105, 1)),
    ]
    assert under_way.matched(Delivered("A.t", 0, 106, 1)) == []  # not of this task
    assert under_way.matched(Delivered("dead", 0, 0, 1)) == []


@pytest.mark.parametrize(
    ("problems", "config", "name"),
    [
        (base_problems, {"replication.policy.class": "no.Such"}, "replication.policy.class"),
        (base_problems, {"topics": "("}, "topics"),
        (base_problems, {"forwarding.admin.class": "my.Admin"}, "forwarding.admin.class"),
        (source_problems, {"exactly.once.support": "required"}, "exactly.once.support"),
        (
            source_problems,
            {"emit.offset-syncs.enabled": "false", "offset-syncs.topic.location": "target"},
            "emit.offset-syncs.enabled",
        ),
        (checkpoint_problems, {"emit.checkpoints.enabled": "false"}, "emit.checkpoints.enabled"),
        (checkpoint_problems, {"emit.offset-syncs.enabled": "false"}, "emit.offset-syncs.enabled"),
    ],
)
def test_unsupported_setting_is_named(
    problems: Callable[[Mapping[str, str]], dict[str, list[str]]], config: dict[str, str], name: str
) -> None:
    assert list(problems(config)) == [name]
    assert not problems({"consumer.isolation.level": "read_committed", "exactly.once.support": "required"})


def test_a_disabled_checkpoint_connector_may_say_anything() -> None:
    assert not checkpoint_problems({"enabled": "false", "emit.checkpoints.enabled": "false"})


def test_a_job_that_fails_is_run_again_and_the_others_too() -> None:
    enough, runs = threading.Event(), {"bad": 0, "good": 0}

    def bad() -> None:
        runs["bad"] += 1
        raise ConnectError("no broker")

    def good() -> None:
        runs["good"] += 1
        if min(runs.values()) >= 2:
            enough.set()

    rounds = Rounds("test")
    rounds.add("bad", bad, 1, at_once=True)
    rounds.add("good", good, 1)
    rounds.add("never", enough.set, None, at_once=True)
    rounds.start()
    assert enough.wait(10)
    rounds.stop()
    assert rounds.stopped
