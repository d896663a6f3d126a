"""Any Airbyte source that is a program, and declarative manifests, as a source: state by stream is the source offset.

Partition ``{"stream": name}``, with its namespace in front; the offset holds that stream's state. Programs speak the
Airbyte protocol: ``discover`` and ``read`` with files, messages as lines of JSON. At-least-once.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from spark_connect_rt.config.config_def import ConfigDef, Importance
from spark_connect_rt.config.keys import json_object, text
from spark_connect_rt.config.validators import one_of
from spark_connect_rt.connectors.external_process.airbyte_messages import (
    FULL_REFRESH,
    INCREMENTAL,
    airbyte_catalog,
    configured,
    error_of,
    errors_of,
    input_state,
    is_config_error,
    key_paths,
    parts_of,
    stream_name,
)
from spark_connect_rt.connectors.external_process.child import ChildFailedError
from spark_connect_rt.connectors.external_process.intake import STATE, Intake, Offset
from spark_connect_rt.connectors.external_process.program import Catalog, Program
from spark_connect_rt.connectors.external_process.program_settings import json_of, merged, program_settings
from spark_connect_rt.connectors.external_process.program_source import ProgramSourceConnector
from spark_connect_rt.connectors.external_process.program_task import ProgramSourceTask
from spark_connect_rt.errors import BadConfigError, ExternalError

log = logging.getLogger(__name__)
_MANIFEST_PACKAGE, _MANIFEST_PROGRAM = "airbyte-cdk", "source-declarative-manifest"
_LEVELS = {"FATAL": logging.ERROR, "ERROR": logging.ERROR, "WARN": logging.WARNING, "INFO": logging.INFO}

CONFIG = program_settings("airbyte", "the source's program") + ConfigDef(
    [
        text("airbyte.manifest", "Declarative manifest, YAML or JSON. airbyte-cdk runs it.", None, Importance.HIGH),
        text("airbyte.manifest.file", "File with the manifest, on every machine.", None, Importance.HIGH),
        text("airbyte.components.file", "Python file with custom components of the manifest.", None, Importance.LOW),
        text(
            "airbyte.sync.mode",
            "Sync mode: incremental if a stream supports it, or full_refresh.",
            INCREMENTAL,
            Importance.MEDIUM,
            one_of(INCREMENTAL, FULL_REFRESH),
        ),
        text(
            "airbyte.cursor.fields",
            'Cursors of streams that define none, as JSON: {"orders": "updated_at"}.',
            None,
            Importance.MEDIUM,
            json_object,
        ),
        text(
            "airbyte.primary.keys",
            'Keys of streams that define none, as JSON: {"orders": ["id"]}.',
            None,
            Importance.MEDIUM,
            json_object,
        ),
    ]
)


class AirbyteProgram(Program):
    """One source."""

    prefix = "airbyte"
    deleted_field = "_ab_cdc_deleted_at"

    def __init__(self, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self._errors: list[str] = []
        self._refused = False
        self._whole: set[str] = set()

    def installation(self) -> tuple[list[str], str]:
        """Return what a manifest needs, else see Program: airbyte-source-x has a program source-x."""
        requirement, name = super().installation()
        if self._manifest() is None:
            return requirement, name.removeprefix("airbyte-")
        return requirement or ([] if self.setting("executable") else [_MANIFEST_PACKAGE]), _MANIFEST_PROGRAM

    def _manifest(self) -> str | None:
        """Return the manifest's text. Raises BadConfigError: its file cannot be read."""
        text_of_it, path = self.setting("manifest"), self.setting("manifest.file")
        if text_of_it is not None or path is None:
            return None if text_of_it is None else str(text_of_it)
        try:
            return Path(path).read_text(encoding="utf-8")
        except OSError as error:
            raise BadConfigError({"airbyte.manifest.file": [f"cannot be read: {error}"]}) from error

    def discover_arguments(self) -> list[str] | None:
        """See Program."""
        return ["discover", *self._common()]

    def _common(self) -> list[str]:
        words = ["--config", self.file("config.json", self.config)]
        manifest, components = self._manifest(), self.setting("components.file")
        if manifest is not None:
            words += ["--manifest-path", self.file("manifest.yaml", manifest)]
        return [*words, "--components-path", components] if components else words

    def catalog(self, output: bytes) -> Catalog:
        """See Program."""
        return airbyte_catalog(output)

    def read_arguments(self, catalog: Catalog, intake: Intake, offsets: Mapping[str, Offset]) -> list[str]:
        """See Program."""
        keys = json_of(self.setting("primary.keys"))
        tree = configured(
            catalog, intake.streams, self.setting("sync.mode"), json_of(self.setting("cursor.fields")), keys
        )
        for entry in tree["streams"]:
            stream = entry["stream"]
            name = _name(stream)
            paths = key_paths(stream, keys.get(name))
            if any(len(path) != 1 for path in paths):
                log.warning("stream %s: its key %s is nested, so its records have no key", name, paths)
                paths = []
            intake.schema(name, stream.get("json_schema") or {}, [path[0] for path in paths])
        self._whole = {_name(entry["stream"]) for entry in tree["streams"] if entry["sync_mode"] == FULL_REFRESH}
        words = ["read", *self._common(), "--catalog", self.file("catalog.json", tree)]
        state, left_out = input_state(offsets, catalog)
        if left_out:
            log.warning("streams of different tasks have different shared states, so all of it is read again")
        return words if state is None else [*words, "--state", self.file("state.json", state)]

    def on_message(self, message: Mapping[str, Any], intake: Intake) -> None:
        """See Program."""
        match message.get("type"):
            case "RECORD":
                record = message["record"]
                intake.record(stream_name(record["stream"], record.get("namespace")), record["data"])
            case "STATE":
                intake.state(parts_of(message["state"], intake.streams))
            case "LOG":
                said = message["log"]
                log.log(_LEVELS.get(said.get("level"), logging.DEBUG), "%s", self.mask(str(said.get("message"))))
            case "TRACE":
                self._trace(message)
            case "CONTROL":
                self._control(message)
            case kind:
                log.debug("ignoring a message of type %s", kind)

    def explain(self, output: bytes) -> str:
        """See Program."""
        return errors_of(output)

    def on_end(self, intake: Intake) -> None:
        """Forget the state of streams that are read whole: it says that they were, and they would not be again."""
        if self.setting("interval.ms") >= 0:
            intake.state({name: {STATE: None} for name in self._whole})

    def _trace(self, message: Mapping[str, Any]) -> None:
        """Note an error: it may be of one stream, and the others go on."""
        error = self.mask(error_of(message))
        if error:
            log.error("the source reports %s", error)
            self._errors.append(error)
            self._refused = self._refused or is_config_error(message)

    def judge(self) -> None:
        """See Program."""
        errors, self._errors = "; ".join(self._errors), []
        if self._refused:
            raise ExternalError(f"the source rejects its configuration: {errors}")
        if errors:
            raise ChildFailedError(f"the source reports {errors}")

    def _control(self, message: Mapping[str, Any]) -> None:
        """Take a new configuration, such as a new refresh token, for the next runs of this task."""
        changed = (message.get("control") or {}).get("connectorConfig")
        if changed:
            self.config = merged(self.config, changed["config"])
            log.warning("the source changes its configuration. The change is lost when the task restarts")


def _name(stream: Mapping[str, Any]) -> str:
    return stream_name(stream["name"], stream.get("namespace"))


class AirbyteSourceTask(ProgramSourceTask):
    """Runs one source for some of its streams."""

    definition = CONFIG
    program_class = AirbyteProgram


class AirbyteSourceConnector(ProgramSourceConnector):
    """Reads from any Airbyte source that runs as a program or is a declarative manifest."""

    task = AirbyteSourceTask

    def validate(self, config: Mapping[str, str]) -> Mapping[str, list[str]]:
        """Return what no single setting shows: a manifest needs nothing else; two are one too many."""
        given = [name for name in ("airbyte.manifest", "airbyte.manifest.file") if config.get(name)]
        if len(given) == 2:
            return {given[1]: [f"cannot be set together with {given[0]}"]}
        return {} if given else super().validate(config)
