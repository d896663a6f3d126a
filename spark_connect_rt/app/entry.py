"""Where ``connectrt`` begins: Spark's JVM of a worker is started first, and comes up while everything is imported.

Owns which command lines that is done for. Imports next to nothing: each tenth of a second here is one of a worker's
start. What goes wrong here goes wrong again, and is said, where the command is run.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from spark_connect_rt.errors import ConnectError

WORDS = ("worker", "standalone", "submit")
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
        if settings is None:
            return False
        from spark_connect_rt.engine.startup.gateway import start_before_imports

        return start_before_imports(settings)
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
