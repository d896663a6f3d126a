"""The first moment of ``connectrt``: Spark's JVM of a worker starts before anything else is imported.

Spark starts in four moments: this module reads the command line, ``engine/startup/session_conf.py`` makes the settings,
``engine/startup/gateway.py`` starts the JVM, and ``engine/driver/spark_session.py`` builds the session.

This module imports next to nothing, because each tenth of a second here delays a worker's start. Its errors are
ignored: the command meets the same errors again and reports them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from spark_connect_rt.errors import ConnectError

WORDS = ("worker", "standalone", "submit")
_STANDALONE_SETTING = "offset.storage.file.filename"
QUICK = frozenset({"get", "describe", "pause", "resume", "stop", "restart", "wait", "logs"})
"""The commands that quick_commands.py may run."""


def main() -> None:
    """Run the command line, and exit the process."""
    if not QUICK.isdisjoint(sys.argv[1:2]):
        from spark_connect_rt.app.quick_commands import run_quickly

        if (code := run_quickly(sys.argv[1:])) is not None:
            sys.exit(code)
    begin_jvm(sys.argv[1:])
    from spark_connect_rt.app.cli import main as run

    run()


def begin_jvm(arguments: Sequence[str]) -> bool:
    """Start the JVM of the worker that a command line starts. Returns False if no JVM was started."""
    if not arguments or arguments[0] not in WORDS or "PYSPARK_GATEWAY_PORT" in os.environ:
        return False
    try:
        settings = settings_of(arguments[1:])
        if settings is None or not is_worth_a_jvm(arguments, settings):
            return False
        from spark_connect_rt.engine.startup.gateway import start_before_imports

        return start_before_imports(settings)
    except (OSError, ConnectError):  # not logged: the command meets the same error and reports it
        return False


def is_worth_a_jvm(arguments: Sequence[str], settings: Mapping[str, str]) -> bool:
    """Return False for a distributed worker's file that lacks a required setting: the worker refuses it at once."""
    from spark_connect_rt.app.settings_file import is_complete

    is_standalone = not {"standalone", "--standalone"}.isdisjoint(arguments) or _STANDALONE_SETTING in settings
    return is_standalone or "connectrt.job" in settings or is_complete(settings)


def settings_of(arguments: Sequence[str]) -> dict[str, str] | None:
    """Return the settings of a worker's command line, or None if this parser does not understand it.

    Raises ConnectError and OSError for a file that cannot be read.
    """
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
