"""A standalone worker stands on the same things as one of a group, its loggers among them."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from spark_connect_rt.app.deferred_runner import DeferredRunner
from spark_connect_rt.app.rest.rest_app import create_app
from spark_connect_rt.app.standalone import StandaloneWorker
from spark_connect_rt.kafka.internal_topics import admin_of
from spark_connect_rt.testing.memory_task_runner import MemoryTaskRunner
from tests.unit.rest.conftest import ask

BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
NAME = "spark_connect_rt.tests.standalone"


@pytest.fixture
def worker(tmp_path: Path) -> StandaloneWorker:
    settings = {"key.converter": BYTES, "value.converter": BYTES, "bootstrap.servers": "127.0.0.1:1"}
    return StandaloneWorker({**settings, "offset.storage.file.filename": f"{tmp_path}/offsets"})


def test_loggers_are_shown_and_set(worker: StandaloneWorker) -> None:
    logging.getLogger(NAME).setLevel(logging.INFO)
    dependencies = worker._dependencies(admin_of(worker.config), DeferredRunner(MemoryTaskRunner))
    app = create_app(worker._new_herder(dependencies))
    assert ask(app, "GET", f"/admin/loggers/{NAME}").json()["level"] == "INFO"
    assert NAME in ask(app, "GET", "/admin/loggers").json()
    changed = ask(app, "PUT", f"/admin/loggers/{NAME}", b'{"level": "DEBUG"}')
    assert (changed.status_code, changed.json()) == (200, [NAME])
    assert logging.getLogger(NAME).level == logging.DEBUG
    logging.getLogger(NAME).setLevel(logging.NOTSET)
