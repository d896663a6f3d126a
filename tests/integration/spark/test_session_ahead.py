"""The session that a start begins before its worker is imported is the worker's, if settings are as they were."""

from __future__ import annotations

import threading

import pytest

from spark_connect_rt.engine.driver import session
from spark_connect_rt.engine.startup.java_home import Java
from spark_connect_rt.engine.startup.session_conf import session_conf

PROPERTIES = {"spark.sql.shuffle.partitions": "3"}
GROUP = "ahead"


def test_a_session_begun_ahead_is_used_once_and_only_with_its_settings(
    java: Java, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java.home))
    monkeypatch.setattr(session, "_BEGUN", threading.Event())
    session.launch_ahead(PROPERTIES, GROUP)
    session.session_ahead(PROPERTIES, GROUP)
    (ahead,) = [future.result() for _, future in session._AHEAD]
    assert ahead.sparkContext.appName == "connectrt-ahead"
    for name in session.SQL_CLASSES:  # no name of another Spark: it would be passed over in silence
        assert ahead._jvm is not None
        ahead._jvm.java.lang.Class.forName(name)
    other = session.build_session({"spark.sql.shuffle.partitions": "5"}, GROUP)
    try:
        assert other is not ahead
        assert other.conf.get("spark.sql.shuffle.partitions") == "5"
        session.session_ahead(PROPERTIES, GROUP)
        assert session._AHEAD == [], "a session that is being used is nobody else's"
        other.stop()
        session._BEGUN.clear()
        session.session_ahead(PROPERTIES, GROUP)
        ((_, future),) = session._AHEAD
        assert session.build_session(PROPERTIES, GROUP) is future.result()
    finally:
        session.build_session(PROPERTIES, GROUP).stop()


def test_nothing_is_begun_ahead_on_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "_BEGUN", threading.Event())
    session.session_ahead({"spark.master": "spark://nowhere:7077"}, GROUP)
    assert session._AHEAD == []


def test_failed_session_ahead_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "_BEGUN", threading.Event())

    def fail(_: object) -> object:
        raise OSError("no room")

    monkeypatch.setattr(session, "_session_of", fail)
    with pytest.raises(OSError, match="no room"):
        session.session_ahead(PROPERTIES, GROUP)
    assert session._built_ahead(session_conf(PROPERTIES, GROUP)) is None
    assert session._AHEAD == []
