"""Which Python the processes below Spark's JVM run, and on which path.

Owns PYTHONPATH and PYSPARK_PYTHON of this process and what it starts.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, MutableMapping, Sequence
from pathlib import Path

from spark_connect_rt.engine.startup.spark_version import folder_of

STARTER = Path(__file__).with_name("python_from_folders.sh")


def use_this_python(environment: MutableMapping[str, str], local: bool) -> None:
    """Have processes that Spark starts on this machine run this interpreter, unless the environment names another.

    Args:
        environment: of this process, before its JVM is started; changed.
        local: driver and executors are one JVM: nothing of this runs on another machine.
    """
    if "PYSPARK_PYTHON" in environment:
        return
    if starter_serves(environment, local):
        environment["CONNECTRT_PYTHON"] = sys.executable
        environment["PYSPARK_PYTHON"] = str(STARTER)
    else:
        environment["PYSPARK_PYTHON"] = sys.executable


def starter_serves(environment: Mapping[str, str], local: bool) -> bool:
    """Return whether processes of Spark are started by ``STARTER``, or would be: arguments as ``use_this_python``."""
    named = environment.get("PYSPARK_PYTHON", str(STARTER))
    usable = local and imported_from_folders(environment.get("SPARK_HOME")) and os.access(STARTER, os.X_OK)
    return usable and named == str(STARTER)


def imported_from_folders(spark_home: str | None, folders: Sequence[Path | None] | None = None) -> bool:
    """Return whether Python finds the Spark of ``spark_home`` and its py4j in folders, so that it needs no zips.

    Args:
        spark_home: None: pyspark's own folder, as Spark finds it then.
        folders: where pyspark and py4j are imported from, None: an archive; this process's by default.
    """
    spark, bridge = folders or (folder_of("pyspark"), folder_of("py4j"))
    if spark is None or bridge is None:
        return False
    home = spark.resolve()
    return home == (Path(spark_home).resolve() if spark_home else home)


# Options by which every JVM of ours keeps less memory than HotSpot would by itself.


# Mapped where its pointers already point to, an archive of classes (JEP 350) is read from its file. HotSpot places it
# anywhere by default and corrects each pointer: 140 MiB of Spark's archive become the process's own memory.
ARCHIVES_IN_PLACE = ("-XX:+UnlockDiagnosticVMOptions", "-XX:ArchiveRelocationMode=0")
# Memory that malloc keeps after a start is given back to the system. Java 17.0.9 and newer have it.
FREED_GIVEN_BACK = ("-XX:TrimNativeHeapInterval=60000",)
