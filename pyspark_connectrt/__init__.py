"""Lets Spark find ``format("connectrt")`` by itself: it looks into packages whose names begin with ``pyspark_``.

Every session that has data sources in Python looks so, and a worker's first task waits for it: what is behind the name
is imported once it is read or written.
"""

from __future__ import annotations

from pyspark.sql.datasource import DataSource


class DefaultSource(DataSource):  # type: ignore[misc]
    """``DefaultSource(options)`` is a ``FormatSource``."""

    def __new__(cls, options: dict[str, str]) -> DataSource:  # type: ignore[misc]
        """Return the data source with the plug-ins of this machine's Python."""
        from spark_connect_rt.app.tables.format_source import FormatSource

        return FormatSource(options)

    @classmethod
    def name(cls) -> str:
        """Return the format's name, ``spark.datasource.connectrt.FORMAT``."""
        return "connectrt"
