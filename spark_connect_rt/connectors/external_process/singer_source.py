"""Any Singer tap as a source: its streams become topics, its STATE messages source offsets.

Partition ``{"stream": tap_stream_id}``; the offset holds that stream's bookmark. A tap that is started again gets the
state of its last STATE message that is durable, so what it said after that comes again: at-least-once.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from spark_connect_rt.config.config_def import ConfigDef, ConfigKey, Importance, Type
from spark_connect_rt.config.keys import json_object, text
from spark_connect_rt.config.validators import one_of
from spark_connect_rt.connectors.external_process.intake import Intake, Offset
from spark_connect_rt.connectors.external_process.program import Catalog, Program
from spark_connect_rt.connectors.external_process.program_settings import json_of, program_settings
from spark_connect_rt.connectors.external_process.program_source import ProgramSourceConnector
from spark_connect_rt.connectors.external_process.program_task import ProgramSourceTask
from spark_connect_rt.connectors.external_process.singer_messages import (
    METHODS,
    batch_tables,
    joined_state,
    parts_of,
    selected,
    singer_catalog,
    stream_id,
)

log = logging.getLogger(__name__)

CONFIG = program_settings("singer", "the tap") + ConfigDef(
    [
        text(
            "singer.catalog", "Catalog as JSON, for a tap that cannot discover it.", None, Importance.LOW, json_object
        ),
        text(
            "singer.catalog.option",
            "Command line option for the catalog. Old taps use --properties.",
            "--catalog",
            Importance.LOW,
            one_of("--catalog", "--properties"),
        ),
        text(
            "singer.replication.method",
            "Replication method of every stream. auto: that of the tap's catalog.",
            "auto",
            Importance.MEDIUM,
            one_of(*METHODS),
        ),
        text(
            "singer.replication.keys",
            'Column that makes a stream incremental, as JSON: {"orders": "updated_at"}.',
            None,
            Importance.MEDIUM,
            json_object,
        ),
        ConfigKey(
            "singer.batch.delete",
            Type.BOOLEAN,
            True,
            Importance.LOW,
            "Whether to delete the files of a BATCH message once they are read. A preview deletes none.",
        ),
    ]
)


class SingerTap(Program):
    """One tap."""

    prefix = "singer"
    deleted_field = "_sdc_deleted_at"

    def discover_arguments(self) -> list[str] | None:
        """See Program."""
        if self.setting("catalog") is not None:
            return None
        return ["--config", self.file("config.json", self.config), "--discover"]

    def catalog(self, output: bytes) -> Catalog:
        """See Program."""
        given = self.setting("catalog")
        return singer_catalog(output if given is None else given.encode())

    def read_arguments(self, catalog: Catalog, intake: Intake, offsets: Mapping[str, Offset]) -> list[str]:
        """See Program."""
        keys = {name: str(key) for name, key in json_of(self.setting("replication.keys")).items()}
        tree = selected(catalog, intake.streams, self.setting("replication.method"), keys)
        for entry in tree["streams"]:
            for name in (entry.get("stream"), entry.get("table_name")):
                if name:
                    intake.other_names.setdefault(name, stream_id(entry))
        config = self.file("config.json", self.config)
        words = ["--config", config, self.setting("catalog.option"), self.file("catalog.json", tree)]
        state, disputed = joined_state(offsets)
        if disputed:
            log.warning("ignoring %s of the tap's state, which differs between tasks", disputed)
        return words if state is None else [*words, "--state", self.file("state.json", state)]

    def on_message(self, message: Mapping[str, Any], intake: Intake) -> None:
        """See Program."""
        match message.get("type"):
            case "RECORD":
                intake.record(message["stream"], message["record"])
            case "STATE":
                intake.state(parts_of(message["value"], intake.streams))
            case "SCHEMA":
                intake.schema(message["stream"], message["schema"], message.get("key_properties") or ())
            case "BATCH":
                self._batch(message, intake)
            case "ACTIVATE_VERSION":
                log.info(
                    "stream %s: version %s; rows of earlier versions are kept", message["stream"], message["version"]
                )
            case kind:
                log.warning("ignoring a message of type %s", json.dumps(kind))

    def _batch(self, message: Mapping[str, Any], intake: Intake) -> None:
        for path, records in batch_tables(message):
            if isinstance(records, pa.Table) and self.setting("value") == "struct":
                intake.column(message["stream"], records)
            else:
                for record in records.to_pylist() if isinstance(records, pa.Table) else records:
                    intake.record(message["stream"], record)
            if self.setting("batch.delete") and not self.previewed:
                _removed(path)


def _removed(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        log.warning("the batch %s cannot be deleted: %s", path, error)


class SingerSourceTask(ProgramSourceTask):
    """Runs one tap for some of its streams."""

    definition = CONFIG
    program_class = SingerTap


class SingerSourceConnector(ProgramSourceConnector):
    """Reads from any Singer tap; each of its streams becomes a topic."""

    task = SingerSourceTask
