"""A replay into a sink is carried out by the class that the worker has for it, any other by ReplayRun."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from spark_connect_rt.operations.dead_letters.model import SINK, TOPIC
from spark_connect_rt.operations.dead_letters.replay import ReplayClients, ReplayRun, new_run
from spark_connect_rt.operations.dead_letters.replay_ledger import ReplayRequest

REQUEST = ReplayRequest(
    id="r1",
    connector="orders",
    topic="orders-dead",
    target=TOPIC,
    filter={},
    letters=None,
    edit={},
    rate=None,
    again=False,
    who="",
    worker="",
    created_ms=0,
)


class IntoSink(ReplayRun):
    """Stands for SinkReplay."""


def clients(sink_run: Callable[..., ReplayRun]) -> ReplayClients:
    unused: Any = None
    return ReplayClients("w", unused, unused, unused, unused, unused, unused, unused, sink_run)


@pytest.mark.parametrize(("target", "expected"), [(TOPIC, ReplayRun), (SINK, IntoSink)])
def test_the_target_decides_which_class_carries_out_a_replay(target: str, expected: type[ReplayRun]) -> None:
    run = new_run(clients(IntoSink), replace(REQUEST, target=target), lambda: False)
    assert type(run) is expected
