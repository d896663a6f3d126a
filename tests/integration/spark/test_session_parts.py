"""What a worker's session puts off, and what it keeps apart from slices: nothing of it is missing in the end."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from spark_connect_rt.engine.class_archive_command import end_gateway, end_jvm
from spark_connect_rt.engine.driver import slot_session as slice_session_module
from spark_connect_rt.engine.driver.slot_session import make_active, register_source, slice_session
from spark_connect_rt.engine.driver.spark_session import build_session
from spark_connect_rt.engine.executor.datasource import FORMAT, ConnectTasks
from spark_connect_rt.engine.startup import ml_functions
from spark_connect_rt.engine.startup.java_home import Java

PROVIDERS = "META-INF/services/org.apache.spark.sql.SparkSessionExtensionsProvider"
SOURCES = "META-INF/services/org.apache.spark.sql.sources.DataSourceRegister"


@pytest.fixture(scope="module")
def session(java: Java) -> Iterator[SparkSession]:
    if (gateway := SparkContext._gateway) is not None:  # another module's, which may have the functions already
        end_gateway(gateway)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_HOME", str(java.home))
        for name in [name for name in os.environ if name.startswith(("SPARK_", "HADOOP_", "PYSPARK_SUBMIT"))]:
            patch.delenv(name)
        for name in [name for name in sys.modules if name.split(".")[:2] == ["pyspark", "ml"]]:
            patch.delitem(sys.modules, name)  # another test's
        made = build_session({"spark.master": "local[2]"})
        yield made
        end_jvm(made)


def found(session: SparkSession, loader: object, name: str) -> list[str]:
    """Return what a class loader of the JVM finds by a name."""
    all_of_it, names = loader.getResources(name), list[str]()  # type: ignore[attr-defined]
    while all_of_it.hasMoreElements():
        names.append(all_of_it.nextElement().toString())
    return names


def test_mllib_s_functions_are_there_for_who_imports_them(session: SparkSession) -> None:
    registries = getattr(session._jvm, "org.apache.spark.sql.catalyst.analysis.FunctionRegistry$")
    registry = getattr(registries, "MODULE$").internal()
    assert "vector_to_array" not in registry.listFunction().toString()
    from pyspark.ml.functions import vector_to_array
    from pyspark.ml.linalg import Vectors

    assert "vector_to_array" in registry.listFunction().toString()
    frame = session.createDataFrame([(Vectors.dense([1.0, 2.0]),)], ["vector"])
    assert frame.select(vector_to_array("vector")).first()[0] == [1.0, 2.0]  # type: ignore[index]


def test_nothing_but_mllib_s_provider_is_hidden(session: SparkSession, tmp_path: Path) -> None:
    gateway, services = session.sparkContext._gateway, tmp_path / "META-INF" / "services"
    assert gateway is not None
    services.mkdir(parents=True)
    (services / PROVIDERS.rpartition("/")[2]).write_text("a.user.s.Extensions\n")
    jvm = gateway.jvm
    thread, places = jvm.java.lang.Thread.currentThread(), gateway.new_array(jvm.java.net.URL, 1)
    places[0] = jvm.java.io.File(str(tmp_path)).toURI().toURL()
    usual = thread.getContextClassLoader()
    user_s = jvm.java.net.URLClassLoader(places, usual)
    thread.setContextClassLoader(user_s)
    try:
        _, hiding = ml_functions._loader(gateway)
        assert len(found(session, user_s, PROVIDERS)) == 2
        (left,) = found(session, hiding, PROVIDERS)
        assert str(tmp_path) in left
        assert found(session, hiding, SOURCES) == found(session, user_s, SOURCES) != []
    finally:
        thread.setContextClassLoader(usual)


def test_session_has_the_functions_at_once_unless_jars_could_hide_them(
    session: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    gateway, watches = session.sparkContext._gateway, list(sys.meta_path)
    for name in [name for name in sys.modules if name.split(".")[:2] == ["pyspark", "ml"]]:
        monkeypatch.delitem(sys.modules, name)
    with ml_functions.registered_later(gateway, plain=False):
        assert sys.meta_path == watches
    monkeypatch.setattr(ml_functions, "classes_path", lambda: tmp_path)
    with ml_functions.registered_later(gateway, plain=True):
        assert sys.meta_path == watches


def test_slices_are_planned_without_code_and_the_worker_s_own_session_with_it(session: SparkSession) -> None:
    slices = slice_session(session)
    try:
        assert slices.conf.get("spark.sql.codegen.factoryMode") == "NO_CODEGEN"
        assert session.conf.get("spark.sql.codegen.factoryMode") == "FALLBACK"
        for used, steps in ((slices, "Project"), (session, "*(1) Project")):
            plan = used.range(3).selectExpr("id + 1")._jdf.queryExecution().executedPlan().toString()
            assert plan.startswith(steps)
        assert slices._jsparkSession.sessionState().dataSourceManager().dataSourceExists(FORMAT)
        assert not session._jsparkSession.sessionState().dataSourceManager().dataSourceExists(FORMAT)
    finally:
        make_active(session)


def test_a_source_that_spark_registers_only_its_own_way_is_registered_so(
    session: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside = session.newSession()
    monkeypatch.setattr(slice_session_module, "SimpleNamespace", lambda **_: object())
    register_source(beside, ConnectTasks)
    assert beside._jsparkSession.sessionState().dataSourceManager().dataSourceExists(FORMAT)
