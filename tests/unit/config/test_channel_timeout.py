"""E5: the executors of a stopped driver end their work before the group assigns its tasks elsewhere."""

from __future__ import annotations

import pytest

from spark_connect_rt.testing.worker_settings import worker_settings


@pytest.mark.parametrize(("session_ms", "heartbeat_ms"), [(10_000, 3_000), (45_000, 3_000), (6_000, 1_000)])
def test_e5_executors_end_before_the_session_can(session_ms: int, heartbeat_ms: int) -> None:
    settings = {"session.timeout.ms": str(session_ms), "heartbeat.interval.ms": str(heartbeat_ms)}
    assert worker_settings(settings).channel_timeout_ms < session_ms - heartbeat_ms


def test_the_default_is_six_seconds() -> None:
    assert worker_settings().channel_timeout_ms == 6_000


def test_a_given_value_is_taken() -> None:
    assert worker_settings({"connectrt.channel.timeout.ms": "1500"}).channel_timeout_ms == 1_500
