"""A Python process whose pipe Spark has closed ends without a word: Spark does so to planners that were idle a minute.

Spark's daemon prints a traceback then, which looks like a crash in the log of a healthy worker. Suppresses only that
traceback; all other output of a daemon's worker is unchanged.
"""

from __future__ import annotations

from typing import Any

CLOSED = (BrokenPipeError, ConnectionResetError)
_NAMES = tuple(kind.__name__ for kind in CLOSED)


def end_quietly(daemon: Any) -> None:
    """Have workers of this module, ``pyspark.daemon``, say nothing of a pipe that Spark has closed."""
    run = daemon.worker

    def worker(*arguments: Any) -> int:
        try:
            return int(run(*arguments))
        except CLOSED:  # versions that do not catch it themselves
            return 1  # not to be used again

    def say(*values: Any, **more: Any) -> None:
        if not any(name in str(value) for value in values for name in _NAMES):
            print(*values, **more)  # noqa: T201 - pyspark's own output

    daemon.worker, daemon.print = worker, say
