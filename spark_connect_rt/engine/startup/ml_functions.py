"""Spark's functions of machine learning, registered when ``pyspark.ml`` is imported instead of with each session.

Owns when that may be. A session loads every ``SparkSessionExtensionsProvider`` on its class path. Spark brings one,
MLlib's. It registers three functions (``vector_to_array`` and the like), which only MLlib's own Python and Scala call,
and makes Scala's reflection ready for their types: 0.7 CPU s and 40 MiB for every worker. They are registered in one
place for the whole JVM, so it makes no difference to a session when that is done. Where a user brings jars, what is in
them may call these functions, too: then the session registers them by itself.

A class loader hides the provider. The compiler that Spark brings compiles it next to the archive of classes.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError

from spark_connect_rt.engine.startup.session_conf import classes_path

REGISTRATION = "org.apache.spark.sql.ml.InternalFunctionRegistration$"
PYTHON_SIDE = "pyspark.ml"
NOT_READY = (Py4JError, OSError)  # OSError: the JVM has ended, as who waits for its context will say
LOADER = "WithoutMl"
# Finds what the thread's class loader finds, less MLlib's provider; for Janino, which knows no generics.
SOURCE = """
public class WithoutMl extends ClassLoader {
  public WithoutMl() { super(Thread.currentThread().getContextClassLoader()); }
  public java.util.Enumeration getResources(String name) throws java.io.IOException {
    java.util.Enumeration found = super.getResources(name);
    if (!name.equals("META-INF/services/org.apache.spark.sql.SparkSessionExtensionsProvider")) return found;
    java.util.Vector kept = new java.util.Vector();
    while (found.hasMoreElements()) {
      Object one = found.nextElement();
      if (one.toString().indexOf("/spark-mllib_") < 0) kept.add(one);
    }
    return kept.elements();
  }
}
"""
log = logging.getLogger(__name__)


def compile_loader(jvm: Any, folder: Path) -> None:
    """Write the class loader's class into a folder. Raises Py4JError, OSError."""
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.cook(SOURCE)
    folder.mkdir(parents=True, exist_ok=True)
    half = folder / f"{LOADER}.{os.getpid()}"
    half.write_bytes(bytes(compiler.getBytecodes()[LOADER]))
    half.replace(folder / f"{LOADER}.class")


@contextlib.contextmanager
def registered_later(gateway: Any, plain: bool) -> Iterator[None]:
    """Within it, sessions of this thread are made without these functions. Importing ``pyspark.ml`` registers them.

    Args:
        gateway: pyspark's; None: there is no JVM yet.
        plain: nothing is on the JVM's class path but Spark.
    """
    thread: Any
    thread, loader = _loader(gateway) if plain and PYTHON_SIDE not in sys.modules else (None, None)
    if loader is None:
        yield
        return
    usual = thread.getContextClassLoader()
    thread.setContextClassLoader(loader)
    sys.meta_path.insert(0, _OnImport(gateway.jvm))
    try:
        yield
    finally:
        with contextlib.suppress(*NOT_READY):
            thread.setContextClassLoader(usual)


class _OnImport:
    """Finds no module; has the functions registered before ``pyspark.ml`` is found by others. Any thread."""

    def __init__(self, jvm: Any) -> None:
        self._jvm = jvm

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """Register the functions when ``PYTHON_SIDE`` is imported, and then stop watching. Finds no module itself."""
        if name == PYTHON_SIDE:
            sys.meta_path = [finder for finder in sys.meta_path if finder is not self]
            register(self._jvm)


def _loader(gateway: Any) -> tuple[Any, Any]:
    """Return the JVM's side of this thread and the class loader for it; None: there is none."""
    folder = classes_path()
    if gateway is None or folder is None or not (folder / f"{LOADER}.class").is_file():
        return None, None
    with contextlib.suppress(*NOT_READY):
        jvm = gateway.jvm
        thread, places = jvm.java.lang.Thread.currentThread(), gateway.new_array(jvm.java.net.URL, 1)
        places[0] = jvm.java.io.File(str(folder)).toURI().toURL()
        found = jvm.java.net.URLClassLoader(places, thread.getContextClassLoader()).loadClass(LOADER)
        return thread, found.newInstance()
    return None, None


def register(jvm: Any) -> None:
    """Register the functions, once for the JVM. A failure is logged."""
    try:
        jvm.java.lang.Class.forName(REGISTRATION)
    except NOT_READY as error:
        log.debug("Spark's machine learning functions cannot be registered: %s", error)
