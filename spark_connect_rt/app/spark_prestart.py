"""Spark's JVM and session, begun before the worker that will use them is imported: its first record comes sooner.

Owns when that is done. What goes wrong here goes wrong again, and is said, where the session is built.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import subprocess
import threading
from collections.abc import Mapping

from pyspark import SparkContext

from spark_connect_rt.base.pandas_on_demand import load_pandas_on_demand
from spark_connect_rt.engine.driver.spark_session import (
    import_bridge,
    launch_ahead,
    session_ahead,
    session_begun,
    start_zygote_for,
)
from spark_connect_rt.engine.startup.java_home import find_java
from spark_connect_rt.engine.startup.session_conf import connect_session_of, of_session

END_LIMIT_S = 5.0
log = logging.getLogger(__name__)


def start_jvm_ahead(settings: Mapping[str, str]) -> None:
    """Begin to start the JVM and return; not below spark-submit, which made one, and not by unresolved settings.

    Args:
        settings: a worker file's; ``spark.*`` and ``group.id`` count.
    """
    asked = of_session(settings)
    if asked is None or "PYSPARK_GATEWAY_PORT" in os.environ or connect_session_of(settings, os.environ):
        return
    spark, group = asked
    load_pandas_on_demand()
    import_bridge()  # here: two threads that import the same circle of modules would see half of it
    start_zygote_for(spark)  # before there are threads; it has what was imported so far, and imports the rest beside us
    launched = threading.Event()
    threading.Thread(target=_start, args=(spark, group, launched), name="spark-jvm", daemon=True).start()
    atexit.register(_end, launched)


def _start(spark: Mapping[str, str], group: str, launched: threading.Event) -> None:
    try:
        os.environ["JAVA_HOME"] = str(find_java().home)
        launch_ahead(spark, group)
        launched.set()
        session_ahead(spark, group)
    except Exception:
        log.debug("Spark was not prestarted", exc_info=True)
    finally:
        launched.set()


def _end(launched: threading.Event) -> None:
    """End a JVM that nobody came to use before this process has ended: nothing of a worker is left."""
    if session_begun():
        return
    launched.wait(END_LIMIT_S)
    process = getattr(SparkContext._gateway, "proc", None)
    logging.disable()  # what the session's thread was asking of the JVM breaks off; a user is to read why the start did
    if process is not None and process.stdin is not None:
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            process.stdin.close()
            process.wait(END_LIMIT_S)
