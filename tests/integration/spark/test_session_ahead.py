"""The session that a start begins before its worker is imported is the worker's, if settings are as they were."""

from __future__ import annotations

import threading

import pytest

from spark_connect_rt.engine.driver import spark_session
from spark_connect_rt.engine.startup.java_home import Java
from spark_connect_rt.engine.startup.session_conf import session_conf

PROPERTIES = {"spark.sql.shuffle.partitions": "3"}
GROUP = "ahead"


def test_a_session_begun_ahead_is_used_once_and_only_with_its_settings(
    java: Java, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java.home))
    monkeypatch.setattr(spark_session, "_BEGUN", threading.Event())
    spark_session.launch_ahead(PROPERTIES, GROUP)
    spark_session.session_ahead(PROPERTIES, GROUP)
    (ahead,) = [future.result() for _, future in spark_session._AHEAD]
    assert ahead.sparkContext.appName == "connectrt-ahead"
    for name in spark_session.SQL_CLASSES:  # no name of another Spark: it would be passed over in silence
        assert ahead._jvm is not None
        ahead._jvm.java.lang.Class.forName(name)
    other = spark_session.build_session({"spark.sql.shuffle.partitions": "5"}, GROUP)
    try:
        assert other is not ahead
        assert other.conf.get("spark.sql.shuffle.partitions") == "5"
        spark_session.session_ahead(PROPERTIES, GROUP)
        assert spark_session._AHEAD == [], "a session that is being used is nobody else's"
        other.stop()
        spark_session._BEGUN.clear()
        spark_session.session_ahead(PROPERTIES, GROUP)
        ((_, future),) = spark_session._AHEAD
        assert spark_session.build_session(PROPERTIES, GROUP) is future.result()
    finally:
        spark_session.build_session(PROPERTIES, GROUP).stop()


def test_nothing_is_begun_ahead_on_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_session, "_BEGUN", threading.Event())
    spark_session.session_ahead({"spark.master": "spark://nowhere:7077"}, GROUP)
    assert spark_session._AHEAD == []


def test_failed_session_ahead_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_session, "_BEGUN", threading.Event())

    def fail(_: object) -> object:
        raise OSError("no room")

    monkeypatch.setattr(spark_session, "_session_of", fail)
    with pytest.raises(OSError, match="no room"):
        spark_session.session_ahead(PROPERTIES, GROUP)
    assert spark_session._built_ahead(session_conf(PROPERTIES, GROUP)) is None
    assert spark_session._AHEAD == []
