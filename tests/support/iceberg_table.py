"""An Iceberg table of a Hadoop catalog on the local disk: the sink's configuration, and the committed rows.

Owns: reading the table by its own metadata (version hint, manifest list, manifests), so that files which no commit
names do not count.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import fastavro
import pyarrow.parquet as pq

from tests.support.captured_database import CONVERTERS

_DELETED = 2  # status of a manifest's entry


class IcebergTable:
    """``namespace.name`` below a warehouse folder."""

    def __init__(self, warehouse: Path, name: str) -> None:
        self.warehouse, self.name = warehouse, name

    @property
    def _folder(self) -> Path:
        return self.warehouse / "default" / self.name

    def config(self, topic: str, bootstrap_servers: str) -> Mapping[str, str]:
        """Return the sink's configuration; it commits every second and makes the table."""
        return {
            "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
            "topics": topic,
            "tasks.max": "2",  # with one task there is no election
            "connectrt.isolation": "process",  # Java Connect passes over it
            "iceberg.tables": f"default.{self.name}",
            "iceberg.tables.auto-create-enabled": "true",
            "iceberg.catalog.type": "hadoop",
            "iceberg.catalog.warehouse": self.warehouse.as_uri(),
            "iceberg.control.topic": f"control-{self.name}",
            "iceberg.control.commit.interval-ms": "1000",
            "iceberg.control.commit.timeout-ms": "5000",
            "iceberg.kafka.bootstrap.servers": bootstrap_servers,
            **CONVERTERS,
            "key.converter.schemas.enable": "true",
            "value.converter.schemas.enable": "true",
        }

    def snapshots(self) -> int:
        """Return how many commits the table has seen; 0 when it is not there."""
        return len(self._metadata().get("snapshots", []))

    def rows(self) -> list[tuple[Any, ...]]:
        """Return all committed rows, sorted: (id, name)."""
        tables = [pq.read_table(file, columns=["id", "name"]) for file in self._files()]
        return sorted(row for table in tables for row in zip(*table.to_pydict().values(), strict=True))

    def _metadata(self) -> dict[str, Any]:
        hint = self._folder / "metadata" / "version-hint.text"
        if not hint.exists():
            return {}
        file = self._folder / "metadata" / f"v{hint.read_text().strip()}.metadata.json"
        found: dict[str, Any] = json.loads(file.read_text())
        return found

    def _files(self) -> list[str]:
        metadata = self._metadata()
        current = metadata.get("current-snapshot-id")
        snapshot = next(
            (candidate for candidate in metadata.get("snapshots", []) if candidate["snapshot-id"] == current), None
        )
        if snapshot is None:
            return []
        manifests = [manifest["manifest_path"] for manifest in _avro(snapshot["manifest-list"])]
        entries = [entry for manifest in manifests for entry in _avro(manifest) if entry["status"] != _DELETED]
        return [_path(entry["data_file"]["file_path"]) for entry in entries]


def _avro(uri: str) -> list[dict[str, Any]]:
    with Path(_path(uri)).open("rb") as file:
        return list(fastavro.reader(file))  # type: ignore[arg-type]


def _path(uri: str) -> str:
    return uri.removeprefix("file://").removeprefix("file:")
