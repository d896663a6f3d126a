"""The session that slices are planned in, beside the worker's own, in the same Spark.

Owns its settings. A slice's plan moves a row a batch from one Python process to another: code made for it would gain
nothing, and a worker's first record would wait for the compiler. Tables are written by the worker's own session.
"""

from __future__ import annotations

import logging

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource
from pyspark.sql.udf import _wrap_function

from spark_connect_rt.spark.executor.datasource import ConnectTasks

IN_PYTHON = "org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource"
WITHOUT_CODE = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
log = logging.getLogger(__name__)


def slice_session(session: SparkSession) -> SparkSession:
    """Make it, beside the worker's session. Blocks."""
    beside = session.newSession()
    for name, value in WITHOUT_CODE.items():
        beside.conf.set(name, value)
    register_source(beside, ConnectTasks)
    return beside


def make_active(session: SparkSession) -> None:
    """Make a session the calling thread's: a thread of py4j has none, and the look-up of a Python writer needs one."""
    assert session._jvm is not None
    session._jvm.SparkSession.setActiveSession(session._jsparkSession)


def register_source(session: SparkSession, source: type[DataSource]) -> None:
    """Register a Python data source, in place of one of the same name. Blocks.

    ``dataSource.register`` first looks whether Java has a source of this name, which ends in an exception for whose
    text the JVM reads all its messages: 0.2 s of the first slice. What Spark refuses here is registered so, after all.
    """
    try:
        made = getattr(session._jvm, IN_PYTHON)(_wrap_function(session.sparkContext, source))
        session._jsparkSession.sessionState().dataSourceManager().registerDataSource(source.name(), made)
    except (Py4JError, TypeError):  # TypeError: this Spark has the class elsewhere
        log.debug("registered by Spark's own way", exc_info=True)
        session.dataSource.register(source)
