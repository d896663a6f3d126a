"""Lets Spark find ``format("connectrt")`` by itself: it looks into packages whose names begin with ``pyspark_``."""

from __future__ import annotations

from typing import ClassVar

from spark_connect_rt.app.executor_clients import FACTORY
from spark_connect_rt.app.tables.table_columns import DEPLOYED, FILTERED, READ_TABLE, TABLE_COLUMNS
from spark_connect_rt.spark.datasource.connectrt import ConnectRt


class DefaultSource(ConnectRt):
    """The data source with the plug-ins of this machine's Python."""

    clients = FACTORY
    tables: ClassVar = TABLE_COLUMNS
    filtered: ClassVar = FILTERED
    read_table = READ_TABLE
    deployed = DEPLOYED
