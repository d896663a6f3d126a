"""The lakehouse table of the quickstart, in each format: its connectors, its rows, and how to query it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from spark_connect_rt.app.quickstart.cdc.order_changes import COLUMNS, DATABASE, TABLE
from spark_connect_rt.base.optional_package import optional_module

SOURCE = "orders-source"
TOPIC = f"{DATABASE}.public.{TABLE}"
LAKE_TABLE = f"{DATABASE}.{TABLE}"
COMMIT_MS = 1_000
_CONVERTERS = {
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "key.converter.schemas.enable": "true",
    "value.converter.schemas.enable": "true",
}
_CATALOG = "lake"
_USERS = "the tables of quickstart --cdc"
Row = tuple[Any, ...]
"""One row: values in the order of `COLUMNS`."""


def source_config(host: str, port: int, user: str, password: str) -> dict[str, str]:
    """Return the configuration of Debezium's source for the table of orders."""
    return {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "tasks.max": "1",
        "database.hostname": host,
        "database.port": str(port),
        "database.user": user,
        "database.password": password,
        "database.dbname": DATABASE,
        "topic.prefix": DATABASE,
        "plugin.name": "pgoutput",
        "slot.name": "quickstart",
        "publication.name": "quickstart",
        "publication.autocreate.mode": "filtered",
        "table.include.list": f"public.{TABLE}",
        "poll.interval.ms": "100",
        **_CONVERTERS,
    }


class Lake(ABC):
    """One table in a folder. Its rows are read with the format's usual library, not with the sink."""

    title: ClassVar[str]
    sink: ClassVar[str]

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def sink_config(self) -> dict[str, str]:
        """Return the configuration of the sink: upserts by key, the table made from the first records."""
        return {
            "tasks.max": "1",
            "topics": TOPIC,
            "iceberg.tables": LAKE_TABLE,
            "iceberg.tables.auto-create-enabled": "true",
            "iceberg.tables.evolve-schema-enabled": "true",
            "iceberg.tables.upsert-mode-enabled": "true",
            "iceberg.control.commit.interval-ms": str(COMMIT_MS),
            **self._place(),
            **_CONVERTERS,
        }

    @abstractmethod
    def prepare(self) -> None:
        """Make what the sink does not make. Raises ConnectError if packages are missing."""

    @abstractmethod
    def _place(self) -> Mapping[str, str]:
        """Return the settings that name the table's place."""

    @abstractmethod
    def version(self) -> str | None:
        """Return the id of the table's current state. None: the table has none yet."""

    @abstractmethod
    def rows(self) -> list[Row]:
        """Return the rows of the state that `version` saw last, by key."""

    @abstractmethod
    def queries(self, java_home: Path) -> dict[str, str]:
        """Return programs that read the table: name of the reader -> Python."""

    @staticmethod
    def _sorted(table: Any) -> list[Row]:
        columns = [table[name].to_pylist() for name in COLUMNS]
        return sorted(zip(*columns, strict=True), key=lambda row: row[0])


class IcebergLake(Lake):
    """An Iceberg table of a SQL catalog in SQLite."""

    title = "Iceberg"
    sink = "orders-iceberg"

    def prepare(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        module = optional_module("spark_connect_rt.connectors.lakehouse.iceberg_catalogs", "cdc", _USERS)
        self._missing = optional_module("pyiceberg.exceptions", "cdc", _USERS).NoSuchTableError
        self._catalog = module.RememberingSqlCatalog(_CATALOG, **self._properties())
        self._table: Any = None

    def _properties(self) -> dict[str, str]:
        return {"uri": f"sqlite:///{self.folder / 'catalog.db'}", "warehouse": self.folder.as_uri()}

    def _place(self) -> Mapping[str, str]:
        catalog = {f"iceberg.catalog.{name}": value for name, value in self._properties().items()}
        return {
            "connector.class": "IcebergSink",
            "iceberg.catalog": _CATALOG,
            "iceberg.catalog.type": "sql",
            **catalog,
        }

    def version(self) -> str | None:
        try:
            self._table = self._catalog.load_table(LAKE_TABLE)
        except self._missing:
            return None
        snapshot = self._table.metadata.current_snapshot_id
        return None if snapshot is None else str(snapshot)

    def rows(self) -> list[Row]:
        return self._sorted(self._table.scan().to_arrow())

    def queries(self, java_home: Path) -> dict[str, str]:
        uri, warehouse = self._properties().values()
        imports = "from pyiceberg.catalog.sql import SqlCatalog\n\n"
        opened = (
            f'catalog = SqlCatalog("{_CATALOG}", uri="{uri}", warehouse="{warehouse}")\n'
            f'table = catalog.load_table("{LAKE_TABLE}")\n'
        )
        printed = "print(table.scan(row_filter=\"status = 'sent'\").to_arrow().to_pandas())\n"
        by_extension = "from pathlib import Path\n\nimport duckdb\nimport duckdb_ext\n"
        return {
            "pyiceberg": imports + opened + printed,
            "duckdb": by_extension + imports + opened + _DUCKDB_ON_ICEBERG,
            "spark": _spark(java_home, imports, f"{opened}orders = spark.createDataFrame(table.scan().to_arrow())\n"),
        }


class DeltaLake(Lake):
    """A Delta table in a folder."""

    title = "Delta"
    sink = "orders-delta"

    def prepare(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._module = optional_module("deltalake", "cdc", _USERS)
        self._table: Any = None

    @property
    def path(self) -> Path:
        """Return the folder of the table."""
        return self.folder / DATABASE / TABLE

    def _place(self) -> Mapping[str, str]:
        return {"connector.class": "DeltaSink", "delta.root": str(self.folder)}

    def version(self) -> str | None:
        if not self._module.DeltaTable.is_deltatable(str(self.path)):
            return None
        self._table = self._module.DeltaTable(str(self.path))
        return str(self._table.version()) if self._table.version() else None  # version 0 has no row

    def rows(self) -> list[Row]:
        return self._sorted(self._table.to_pyarrow_table())

    def queries(self, java_home: Path) -> dict[str, str]:
        imports = "from deltalake import DeltaTable\n\n"
        opened = f'table = DeltaTable("{self.path}")\n'
        return {
            "deltalake": imports + opened + 'rows = table.to_pandas()\nprint(rows[rows.status == "sent"])\n',
            "duckdb": "import duckdb\n" + imports + opened + "orders = table.to_pyarrow_dataset()\n" + _SQL_OF_DUCKDB,
            "spark": _spark(java_home, imports, f"{opened}orders = spark.read.parquet(*table.file_uris())\n"),
        }


_SQL = "SELECT status, count(*) AS orders, sum(amount) AS amount FROM orders GROUP BY status ORDER BY status"
_SQL_OF_DUCKDB = f'duckdb.sql("{_SQL}").show()\n'
_DUCKDB_ON_ICEBERG = """
extensions = duckdb.connect(config={"allow_unsigned_extensions": "true"})
for name in ("avro", "iceberg"):  # of the packages duckdb-ext-avro and duckdb-ext-iceberg
    (file,) = (path for folder in duckdb_ext.__path__ for path in Path(folder).rglob(f"{name}.duckdb_extension"))
    extensions.load_extension(str(file))
metadata = table.metadata_location.removeprefix("file://")
extensions.execute(f"CREATE VIEW orders AS FROM iceberg_scan('{metadata}')")
extensions.sql("%s").show()
""".replace("%s", _SQL)


def _spark(java_home: Path, imports: str, opened: str) -> str:
    return (
        f"import os\n\n{imports.rstrip()}\nfrom pyspark.sql import SparkSession\n\n"
        f'os.environ["JAVA_HOME"] = "{java_home}"\n'
        'spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()\n'
        f'{opened}orders.createOrReplaceTempView("orders")\n'
        f'spark.sql("{_SQL}").show()\n'
    )
