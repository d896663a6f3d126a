"""Facts that ``format("connectrt")`` needs before a read: the tables' columns, and where their readers are.

Imported by every Python process that Spark starts for a query, so it imports next to nothing.
"""

from __future__ import annotations

from spark_connect_rt.engine.datasource.pushed_filters import PUSHED

READ_TABLE = "spark_connect_rt.app.offline.tables:read_table"
DEPLOYED = "spark_connect_rt.app.offline.deployed_connectors:Deployed"
DEAD_LETTERS = "dlq:"
_STATUS = "state string, worker_id string, generation int, trace string, version string"
TABLE_COLUMNS = {
    "connectors": "name string, class string, config map<string,string>, target_state string, tasks int, " + _STATUS,
    "tasks": "connector string, task int, config map<string,string>, " + _STATUS,
    "statuses": "connector string, task int, " + _STATUS,
    "configs": "connector string, task int, name string, value string",
    "offsets": "connector string, partition string, offset string, written timestamp, configured boolean",
    "workers": "url string, worker_id string, running_tasks int",
    DEAD_LETTERS: "topic string, partition int, offset bigint, timestamp timestamp, key binary, value binary, "
    "headers array<struct<key: string, value: binary>>, errors map<string,string>",
}
"""Columns by the table's name, as DDL; a name that ends with a colon has something behind it."""
FILTERED = {DEAD_LETTERS: tuple(PUSHED)}
"""By the table's name: the columns on which conditions bound what is read."""
