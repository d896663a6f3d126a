"""Liveness and readiness beside Java's /health."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from spark_connect_rt.app.rest.rest_app import create_app
from spark_connect_rt.runtime.values import Health
from tests.unit.rest.fake_herder import FakeHerder


@pytest.mark.parametrize(
    ("health", "statuses", "reason"),
    [
        (Health("healthy", "ticks"), (200, 200, 200), ""),
        (Health("starting", "reading topics"), (503, 200, 503), "reading topics"),
        (Health("unhealthy", "The worker is shutting down."), (500, 200, 503), "The worker is shutting down."),
        (Health("unhealthy", "Spark: its JVM ended.", live=False), (500, 500, 503), "Spark: its JVM ended."),
    ],
)
def test_health_live_and_ready(health: Health, statuses: tuple[int, int, int], reason: str) -> None:
    herder = FakeHerder()
    herder.health = lambda: health  # type: ignore[method-assign]
    client = TestClient(create_app(herder))
    answers = [client.get(path) for path in ("/health", "/health/live", "/health/ready")]
    assert tuple(answer.status_code for answer in answers) == statuses
    for answer in answers:
        assert reason in answer.json()["message"]
        assert (answer.json()["status"] == "healthy") is (answer.status_code == 200)


def test_note_about_some_connectors_follows_the_java_message() -> None:
    herder = FakeHerder()
    herder.health = lambda: Health("healthy", "ticks", note="The JVM is away.")  # type: ignore[method-assign]
    answer = TestClient(create_app(herder)).get("/health")
    assert (answer.status_code, answer.json()["status"]) == (200, "healthy")
    assert answer.json()["message"].endswith("ready to handle requests. The JVM is away.")
