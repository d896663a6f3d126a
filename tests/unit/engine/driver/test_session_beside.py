"""What the JVM gets ready for SQL while Spark's context starts."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JError

from spark_connect_rt.engine.driver import spark_session


def test_sqls_classes_load_in_parallel_with_the_context_before_the_session(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    both, loaded, made = threading.Barrier(2, timeout=20), list[str](), list[str]()

    def for_name(name: str) -> None:
        if name == spark_session.SQL_CLASSES[0]:
            both.wait()
            raise Py4JError("another Spark has it elsewhere")
        loaded.append(name)

    def begin(_: Any) -> None:
        both.wait()  # two threads are there at once
        made.append("context")

    jvm = SimpleNamespace(
        java=SimpleNamespace(lang=SimpleNamespace(Class=SimpleNamespace(forName=for_name))),
    )
    monkeypatch.setattr(spark_session, "SparkContext", SimpleNamespace(_jvm=jvm, getOrCreate=begin))
    monkeypatch.setattr(spark_session, "SparkConf", lambda: SimpleNamespace(setAll=list))
    spark_session._begin_context({})
    assert made == ["context"]
    assert loaded == [*spark_session.SQL_CLASSES[1:]]
