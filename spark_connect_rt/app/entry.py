"""Where ``connectrt`` begins: Spark's JVM of a worker is started first, and comes up while everything is imported.

Owns which command lines that is done for. Imports next to nothing: each tenth of a second here is one of a worker's
start. What goes wrong here goes wrong again, and is said, where the command is run.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from spark_connect_rt.errors import ConnectError

WORDS = ("worker", "standalone", "submit")
JOB = "connectrt.job"


def main() -> None:
    """Run the command line; exits the process."""
    begin_jvm(sys.argv[1:])
    from spark_connect_rt.app.cli import main as run

    run()


def begin_jvm(arguments: Sequence[str]) -> bool:
    """Start the JVM of the worker that a command line asks for; False: it asks for none, or for one made otherwise."""
    if not arguments or arguments[0] not in WORDS or "PYSPARK_GATEWAY_PORT" in os.environ:
        return False
    try:
        settings = settings_of(arguments[1:])
        return settings is not None and _start(settings)
    except (OSError, ValueError, ConnectError):  # no line of it: the command itself meets the same, and says so
        return False


def settings_of(arguments: Sequence[str]) -> dict[str, str] | None:
    """Return the settings of a worker's command line; None: one that is not understood here. Raises OSError."""
    from spark_connect_rt.config.java_properties import load_properties

    files, overrides, words = list[str](), dict[str, str](), iter(arguments)
    for word in words:
        if word == "--set":
            name, _, value = next(words, "").partition("=")
            overrides[name.strip()] = value
        elif word.startswith("-"):
            if word != "--standalone":
                return None
        else:
            files.append(word)
    return {**load_properties(Path(files[0])), **overrides} if files else None


def _start(settings: Mapping[str, str]) -> bool:
    spark = {name: value for name, value in settings.items() if name.startswith("spark.")}
    # The quickstart's JVM writes to a file of its own; a provider's values are known later.
    if settings.get(JOB, "worker") == "quickstart" or any("${" in value for value in spark.values()):
        return False
    from spark_connect_rt.embedded.java import first_java
    from spark_connect_rt.spark.jvm.gateway import end_early, start_early
    from spark_connect_rt.spark.jvm.process_python import starter_serves
    from spark_connect_rt.spark.jvm.session_conf import is_local, make_importable, session_conf
    from spark_connect_rt.spark.zygote.door import open_door

    home = first_java(os.environ)
    if home is None:
        return False
    os.environ["JAVA_HOME"] = str(home)
    conf = session_conf(spark, settings.get("group.id") or "worker")
    if not is_local(conf["spark.master"]):
        return False
    make_importable(conf)
    if starter_serves(os.environ, local=True):
        open_door()  # the JVM hands its place on
    atexit.register(end_early)
    return start_early(conf)
