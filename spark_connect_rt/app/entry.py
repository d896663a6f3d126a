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
QUICK = frozenset({"get", "describe", "pause", "resume", "stop", "restart", "wait", "logs"})
"""The words that quick_words.py may run."""


def main() -> None:
    """Run the command line; exits the process."""
    if not QUICK.isdisjoint(sys.argv[1:2]):
        from spark_connect_rt.app.quick_commands import run_quickly

        if (code := run_quickly(sys.argv[1:])) is not None:
            sys.exit(code)
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
    except (OSError, ConnectError):  # no line of it: the command itself meets the same, and says so
        return False


def settings_of(arguments: Sequence[str]) -> dict[str, str] | None:
    """Return the settings of a worker's command line; None: one that is not understood here. Raises ConnectError."""
    from spark_connect_rt.app.settings_file import read_settings

    files, overrides, words = list[Path](), list[str](), iter(arguments)
    for word in words:
        if word == "--set":
            overrides.append(next(words, ""))
        elif word.startswith("-"):
            if word != "--standalone":
                return None
        else:
            files.append(Path(word))
    return read_settings(files[0], overrides) if files else None


def _start(settings: Mapping[str, str]) -> bool:
    from spark_connect_rt.engine.startup.gateway import end_early, start_early
    from spark_connect_rt.engine.startup.java_home import first_java
    from spark_connect_rt.engine.startup.process_python import starter_serves
    from spark_connect_rt.engine.startup.session_conf import (
        connect_session_of,
        is_local,
        make_importable,
        of_session,
        session_conf,
    )
    from spark_connect_rt.engine.startup.zygote_socket import close_door, open_door

    asked, given, home = of_session(settings), os.environ.get("JAVA_HOME"), first_java(os.environ)
    # The quickstart's JVM writes to a file of its own.
    if connect_session_of(settings, os.environ):
        return False  # the worker refuses it
    if asked is None or home is None or settings.get(JOB, "worker") == "quickstart":
        return False
    os.environ["JAVA_HOME"] = str(home)
    conf = session_conf(*asked)
    if is_local(conf["spark.master"]):
        make_importable(conf)
        if starter_serves(os.environ, local=True) and open_door():  # the JVM hands its place on
            atexit.register(close_door)
        atexit.register(end_early)
        if start_early(conf):
            return True
    if given is None:  # nobody has asked this Java yet whether it serves
        del os.environ["JAVA_HOME"]
    return False
