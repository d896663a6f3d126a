"""Classes with the interface of Databricks' Lakeflow community connectors, written for tests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import httpx
from pyspark.sql import types as spark

ASKED: Counter[str] = Counter()
CHANGES: list[dict[str, Any]] = []
GONE: list[dict[str, Any]] = []
FAILURES: list[Exception] = []
SCHEMA = spark.StructType(
    [
        spark.StructField("id", spark.LongType(), False),
        spark.StructField("at", spark.TimestampType()),
        spark.StructField("price", spark.DecimalType(10, 2)),
        spark.StructField("tags", spark.MapType(spark.StringType(), spark.StringType())),
        spark.StructField("raw", spark.StringType()),
    ]
)
KINDS = {"orders": "cdc_with_deletes", "countries": "snapshot", "clicks": "append"}


class Memory:
    """Tables of lists: a call gives ``step`` rows; a place is how many were given."""

    def __init__(self, options: Mapping[str, str]) -> None:
        ASKED["made"] += 1
        self._options = options
        self._until = len(CHANGES), len(GONE)  # what comes later is the next instance's

    def list_tables(self) -> list[str]:
        return list(KINDS)

    def get_table_schema(self, table: str, options: Mapping[str, str]) -> spark.StructType:
        return SCHEMA

    def read_table_metadata(self, table: str, options: Mapping[str, str]) -> dict[str, Any]:
        return {"primary_keys": ["id"], "cursor_field": "id", "ingestion_type": options.get("kind", KINDS[table])}

    def read_table(self, table: str, start: Any, options: Mapping[str, str]) -> tuple[Iterator[Any], Any]:
        ASKED[f"{table} {start} {options['TABLENAME']}"] += 1
        if KINDS[table] == "snapshot":
            return iter(CHANGES), None
        return self._part(CHANGES, self._until[0], start, options)

    def read_table_deletes(self, table: str, start: Any, options: Mapping[str, str]) -> tuple[Iterator[Any], Any]:
        return self._part(GONE, self._until[1], start, options)

    def _part(self, rows: list[Any], until: int, start: Any, options: Mapping[str, str]) -> tuple[Iterator[Any], Any]:
        at = start.get("given", 0)
        end = min(until, at + int(options.get("step", "2")))
        return _failing(rows[at:end]), {"given": end} if end else start


def _failing(rows: list[Any]) -> Iterator[Any]:
    for row in rows:
        if FAILURES and row is rows[-1]:
            raise FAILURES.pop()
        yield row


class Partitioned(Memory):
    """The same rows, in partitions up to the latest offset."""

    def latest_offset(self, table: str, options: Mapping[str, str], start: Any = None) -> dict[str, Any]:
        return {"given": self._until[0]}

    def get_partitions(
        self, table: str, options: Mapping[str, str], start: Any = None, end: Any = None
    ) -> list[dict[str, Any]]:
        first, last = (start or {}).get("given", 0), (end or {"given": self._until[0]})["given"]
        return [{"first": at, "last": min(at + 2, last)} for at in range(first, last, 2)]

    def read_partition(self, table: str, partition: Mapping[str, Any], options: Mapping[str, str]) -> Iterator[Any]:
        ASKED["partitions"] += 1
        return iter(CHANGES[partition["first"] : partition["last"]])


class Web:
    """A JSON API in pages: ``/<table>?after=<id>``."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._client = httpx.Client(
            base_url=options["base_url"], headers={"authorization": f"Bearer {options['token']}"}, trust_env=False
        )

    def list_tables(self) -> list[str]:
        found: list[str] = self._get("/tables")
        return found

    def get_table_schema(self, table: str, options: Mapping[str, str]) -> spark.StructType:
        return spark.StructType().add("id", "long").add("at", "timestamp").add("name", "string")

    def read_table_metadata(self, table: str, options: Mapping[str, str]) -> dict[str, Any]:
        return {"primary_keys": ["id"], "cursor_field": "id", "ingestion_type": "cdc"}

    def read_table(self, table: str, start: Any, options: Mapping[str, str]) -> tuple[Iterator[Any], Any]:
        rows = self._get(f"/{table}", after=(start or {}).get("after", 0))
        return iter(rows), {"after": rows[-1]["id"]} if rows else start

    def _get(self, path: str, **query: Any) -> Any:
        answer = self._client.get(path, params=query)
        answer.raise_for_status()
        return answer.json()


class Half:
    """No connector: it cannot read."""

    def list_tables(self) -> list[str]:
        return []
