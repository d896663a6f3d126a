"""The session that slices are planned in, next to the worker's own, in the same Spark.

Owns its settings. A slice's plan moves a row a batch from one Python process to another: code made for it would gain
nothing, and a worker's first record would wait for the compiler. Tables are written by the worker's own session.
"""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceRegistration

from spark_connect_rt.engine.executor.datasource import ConnectTasks

WITHOUT_CODE = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
log = logging.getLogger(__name__)


def slice_session(session: SparkSession, source: type[DataSource] = ConnectTasks) -> SparkSession:
    """Return a session next to the worker's, with the data source of slices. Blocks."""
    beside = session.newSession()
    for name, value in WITHOUT_CODE.items():
        beside.conf.set(name, value)
    register_source(beside, source)
    return beside


def make_active(session: SparkSession) -> None:
    """Make a session the calling thread's: a thread of py4j has none, and the look-up of a Python writer needs one."""
    assert session._jvm is not None
    session._jvm.SparkSession.setActiveSession(session._jsparkSession)


def register_source(session: SparkSession, source: type[DataSource]) -> None:
    """Register a Python data source, in place of one of the same name. Blocks.

    ``dataSource.register`` first checks whether Java has a source of this name, which ends in an exception for whose
    text the JVM reads all its messages: 0.2 s of the first slice. If Spark refuses this way, the source is registered
    by ``dataSource.register`` after all.
    """
    try:
        sources = session._jsparkSession.sessionState().dataSourceManager()
        register: Any = SimpleNamespace(registerPython=sources.registerDataSource)  # in the place of the one that looks
        beside: Any = SimpleNamespace(
            sparkContext=session.sparkContext, _jsparkSession=SimpleNamespace(dataSource=lambda: register)
        )
        DataSourceRegistration(beside).register(source)
    except (Py4JError, TypeError, AttributeError):  # another Spark does it by other names
        log.debug("registered by Spark's own way", exc_info=True)
        session.dataSource.register(source)
