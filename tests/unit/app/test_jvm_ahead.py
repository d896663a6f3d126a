"""When Spark's JVM is started before its worker is imported."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path

import pytest

from spark_connect_rt.config.java_properties import load_properties
from spark_connect_rt.engine.driver import spark_session as jvm_ahead
from spark_connect_rt.engine.process_plugins import distributed_config
from spark_connect_rt.engine.startup.session_conf import session_conf

CONF = Path(__file__).parents[3] / "conf"


@pytest.fixture
def forked() -> list[tuple[dict[str, str], list[str]]]:
    return []


@pytest.fixture
def launched(
    monkeypatch: pytest.MonkeyPatch, forked: list[tuple[dict[str, str], list[str]]]
) -> list[tuple[dict[str, str], str]]:
    found: list[tuple[dict[str, str], str]] = []

    def launch(properties: Mapping[str, str], group: str) -> None:
        found.append((dict(properties), group))
        raise RuntimeError("what is wrong is said where the session is built")

    monkeypatch.setattr(jvm_ahead, "launch_ahead", launch)
    monkeypatch.setattr(jvm_ahead, "session_ahead", lambda *_: pytest.fail("there is no JVM"))
    before = {*threading.enumerate()}  # of other tests of this process

    def fork(spark: Mapping[str, str]) -> None:
        forked.append((dict(spark), [thread.name for thread in threading.enumerate() if thread not in before]))

    monkeypatch.setattr(jvm_ahead, "start_zygote_for", fork)
    monkeypatch.setenv("JAVA_HOME", "")
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    return found


def ended() -> None:
    for thread in threading.enumerate():
        if thread.name == "spark-jvm":
            thread.join(30)
            assert not thread.is_alive()


def test_by_the_spark_settings_of_the_file(
    launched: list[tuple[dict[str, str], str]], forked: list[tuple[dict[str, str], list[str]]]
) -> None:
    jvm_ahead.start_jvm_ahead({"group.id": "g", "spark.driver.memory": "2g", "bootstrap.servers": "b"})
    ended()
    assert launched == [({"spark.driver.memory": "2g"}, "g")]
    assert forked == [({"spark.driver.memory": "2g"}, [])], "forked before there is a thread"


def test_not_below_spark_submit(launched: list[object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    jvm_ahead.start_jvm_ahead({"group.id": "g"})
    ended()
    assert launched == []


def test_not_by_what_a_provider_would_resolve(launched: list[object]) -> None:
    jvm_ahead.start_jvm_ahead({"group.id": "g", "spark.driver.memory": "${file:/x:memory}"})
    ended()
    assert launched == []


@pytest.mark.parametrize("file", ["connect-distributed.properties", "quickstart.properties"])
def test_a_session_begun_ahead_has_the_worker_s_settings(launched: list[tuple[dict[str, str], str]], file: str) -> None:
    """Else it would be thrown away, and the start would take longer than without it."""
    settings = {**load_properties(CONF / file), "bootstrap.servers": "127.0.0.1:9092"}
    jvm_ahead.start_jvm_ahead(settings)
    ended()
    ((properties, group),) = launched
    worker = distributed_config(settings)
    assert session_conf(properties, group) == session_conf(worker.raw, worker.group.group_id)
