"""When Spark's JVM is started before its worker is imported."""

from __future__ import annotations

import threading
from collections.abc import Mapping

import pytest

from spark_connect_rt.app.commands import jvm_ahead


@pytest.fixture
def forked() -> list[tuple[dict[str, str], list[str]]]:
    return []


def threads() -> list[str]:
    return [one.name for one in threading.enumerate() if one.name == "spark-jvm"]


@pytest.fixture
def launched(
    monkeypatch: pytest.MonkeyPatch, forked: list[tuple[dict[str, str], list[str]]]
) -> list[tuple[dict[str, str], str]]:
    found: list[tuple[dict[str, str], str]] = []

    def launch(properties: Mapping[str, str], group: str) -> None:
        found.append((dict(properties), group))
        raise RuntimeError("what is wrong is said where the session is built")

    monkeypatch.setattr(jvm_ahead, "launch_ahead", launch)
    monkeypatch.setattr(jvm_ahead, "start_zygote_for", lambda spark: forked.append((dict(spark), threads())))
    monkeypatch.setenv("JAVA_HOME", "")
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    return found


def ended() -> None:
    for one in threading.enumerate():
        if one.name == "spark-jvm":
            one.join(30)
            assert not one.is_alive()


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
