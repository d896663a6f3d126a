"""``format("connectrt")`` with what this package brings: its plug-ins' clients and the tables of a worker group."""

from __future__ import annotations

from typing import ClassVar

from spark_connect_rt.engine.datasource.connectrt import ConnectRt
from spark_connect_rt.engine.datasource.table_columns import DEPLOYED, FILTERED, READ_TABLE, TABLE_COLUMNS
from spark_connect_rt.engine.executor_clients import FACTORY


class FormatSource(ConnectRt):
    """The data source with the plug-ins of this machine's Python."""

    clients = FACTORY
    tables: ClassVar = TABLE_COLUMNS
    filtered: ClassVar = FILTERED
    read_table = READ_TABLE
    deployed = DEPLOYED
