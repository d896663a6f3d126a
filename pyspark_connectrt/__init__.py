"""Lets Spark find ``format("connectrt")`` by itself: it looks into packages whose names begin with ``pyspark_``.

Every session that has data sources in Python looks so, and a worker's first task waits for it. Therefore the code
behind the name is imported only when it is read or written.
"""

from __future__ import annotations

import os
from collections.abc import MutableMapping

from pyspark.sql.datasource import DataSource


def use_bytecode(environment: MutableMapping[str, str] = os.environ) -> bool:
    """Have Python processes of a local Spark import pyspark from its folder: its zip holds no bytecode.

    Called before the session is made. Returns whether they will; False, and nothing changed: ``PYSPARK_PYTHON`` names
    another Python, or pyspark is not in a folder. Saves 0.7 CPU seconds for each query of a stream, and some once.
    """
    from spark_connect_rt.engine.startup.process_python import starter_serves, use_this_python

    if not starter_serves(environment, local=True):
        return False
    use_this_python(environment, local=True)
    return True


class DefaultSource(DataSource):  # type: ignore[misc]
    """The class that Spark looks for: ``DefaultSource(options)`` is a ``FormatSource``."""

    def __new__(cls, options: dict[str, str]) -> DataSource:  # type: ignore[misc]
        """Return the data source with the plug-ins of this machine's Python."""
        from spark_connect_rt.engine.datasource.connectrt import FormatSource

        return FormatSource(options)

    @classmethod
    def name(cls) -> str:
        """Return the format's name, ``engine.datasource.connectrt.FORMAT``."""
        return "connectrt"
