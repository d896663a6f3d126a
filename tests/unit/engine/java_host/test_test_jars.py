"""Jars of tests stand before Connect's own, and only where no other machine reaches the worker."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from spark_connect_rt.config.worker_config import RestSettings
from spark_connect_rt.engine.java_host.jar import TEST_JARS, jars_of_tests
from spark_connect_rt.errors import BadConfigError
from spark_connect_rt.operations.plugin_install.report import refuse_test_jars


def listening(listeners: str) -> RestSettings:
    return RestSettings.of({"listeners": listeners})


def test_jars_are_read_from_the_variable_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TEST_JARS, raising=False)
    assert jars_of_tests() == []
    monkeypatch.setenv(TEST_JARS, os.pathsep.join(["b.jar", "a.jar"]))
    assert jars_of_tests() == [Path("b.jar"), Path("a.jar")]


def test_a_worker_that_others_reach_is_refused_with_test_jars(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TEST_JARS, "a.jar")
    refuse_test_jars(listening("http://localhost:8083,http://127.0.0.1:8084,http://[::1]:8085"))
    with pytest.raises(BadConfigError, match=TEST_JARS):
        refuse_test_jars(listening("http://localhost:8083,http://0.0.0.0:8084"))
    with pytest.raises(BadConfigError, match=TEST_JARS):
        refuse_test_jars(listening("http://:8083"))
    monkeypatch.delenv(TEST_JARS)
    refuse_test_jars(listening("http://0.0.0.0:8084"))
