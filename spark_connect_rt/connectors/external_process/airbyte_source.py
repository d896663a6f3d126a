"""Any Airbyte source that is a program, and declarative manifests, as a source: state by stream is the source offset.

Partition ``{"stream": name}``, with its namespace in front; the offset holds that stream's state. Programs speak the
Airbyte protocol: ``discover`` and ``read`` with files, messages as lines of JSON. At-least-once.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from spark_connect_rt.config.config_def import ConfigDef, Importance
from spark_connect_rt.config.settings_group import json_object, text
from spark_connect_rt.config.validators import one_of
from spark_connect_rt.connectors.external_process.child_process import ChildFailedError
from spark_connect_rt.connectors.external_process.program import Program, StreamCatalog
from spark_connect_rt.connectors.external_process.program_output import SHARED, STATE, Intake, Offset
from spark_connect_rt.connectors.external_process.program_settings import json_of, merged, program_settings
from spark_connect_rt.connectors.external_process.program_source import ProgramSourceConnector
from spark_connect_rt.connectors.external_process.program_task import ProgramSourceTask
from spark_connect_rt.errors import BadConfigError, ConnectError, DataError, ExternalError

# Airbyte's catalog and state, as trees. Pure.
#
# A stream is named ``namespace.name``, or ``name`` where it has no namespace. State comes by stream (STREAM), or by
# stream and for all together (GLOBAL), or, of old connectors, in one piece.


INCREMENTAL, FULL_REFRESH = "incremental", "full_refresh"
_LEGACY = "LEGACY"


def stream_name(name: str, namespace: str | None) -> str:
    """Return a stream's name in state, topics and settings."""
    return f"{namespace}.{name}" if namespace else name


def airbyte_catalog(output: bytes) -> StreamCatalog:
    """Return the catalog among the messages of a discovery. Raises ConnectError with its errors: there is none."""
    for message in map(_object, output.splitlines()):
        if message.get("type") == "CATALOG":
            streams = message["catalog"]["streams"]
            return StreamCatalog(
                tuple(stream_name(stream["name"], stream.get("namespace")) for stream in streams), streams
            )
    raise ConnectError(f"discovery printed no Airbyte catalog: {errors_of(output) or 'no error either'}")


def errors_of(output: bytes) -> str:
    """Return the errors in the messages of an output."""
    return "; ".join(filter(None, map(error_of, map(_object, output.splitlines()))))


def _object(line: bytes) -> dict[str, Any]:
    try:
        found = orjson.loads(line)
    except orjson.JSONDecodeError:
        return {}
    return found if isinstance(found, dict) else {}


def error_of(message: Mapping[str, Any]) -> str:
    """Return the error in a TRACE message of type ERROR, empty for any other message."""
    trace = message.get("trace") or {}
    if message.get("type") != "TRACE" or trace.get("type") != "ERROR":
        return ""
    error = trace.get("error") or {}
    return f"{error.get('failure_type') or 'error'}: {error.get('message')} ({error.get('internal_message')})"


def is_config_error(message: Mapping[str, Any]) -> bool:
    """Return whether an ERROR reports that only another configuration can help."""
    return ((message.get("trace") or {}).get("error") or {}).get("failure_type") == "config_error"


def configured(
    catalog: StreamCatalog,
    streams: Sequence[str],
    mode: str,
    cursors: Mapping[str, Any],
    keys: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the configured catalog of just these streams.

    Args:
        mode: of synchronisation; a stream that has no incremental one is read whole.
        cursors: stream -> field, for streams that do not define theirs.
        keys: stream -> fields, for streams that do not define theirs.

    Raises ConnectError: a stream is not in the catalog.
    """
    if missing := set(streams) - set(catalog.streams):
        raise ConnectError(
            f"the source no longer offers {', '.join(sorted(missing))}. It offers {', '.join(catalog.streams)}"
        )
    found = []
    for name, stream in zip(catalog.streams, catalog.tree, strict=True):
        if name not in streams:
            continue
        modes = stream.get("supported_sync_modes") or [FULL_REFRESH]
        cursor = [cursors[name]] if name in cursors else stream.get("default_cursor_field") or []
        usable = bool(cursor) or bool(stream.get("source_defined_cursor"))
        found.append(
            {
                "stream": stream,
                "sync_mode": mode if mode in modes and (mode != INCREMENTAL or usable) else modes[0],
                "destination_sync_mode": "append",
                "cursor_field": cursor,
                "primary_key": key_paths(stream, keys.get(name)),
                "generation_id": 0,
                "minimum_generation_id": 0,
                "sync_id": 0,
            }
        )
    return {"streams": found}


def key_paths(stream: Mapping[str, Any], given: Any = None) -> list[list[str]]:
    """Return the paths of a stream's key: the setting's, else its own."""
    if given:
        return [
            [path] if isinstance(path, str) else list(path) for path in ([given] if isinstance(given, str) else given)
        ]
    return list(stream.get("source_defined_primary_key") or [])


def parts_of(state: Any, streams: Sequence[str]) -> dict[str, Offset]:
    """Return a STATE message's state by stream. Raises DataError: the state is invalid."""
    if not isinstance(state, dict):
        raise DataError(f"the state is not an object: {state!r:.80}")
    kind = state.get("type") or _LEGACY
    if kind == "STREAM":
        return dict([_stream_part(state["stream"])])
    if kind == "GLOBAL":
        whole = state["global"]
        shared = {SHARED: _text({"type": kind, "state": whole.get("shared_state")})}
        own = dict(map(_stream_part, whole.get("stream_states") or ()))
        return {name: {STATE: None, **own.get(name, {}), **shared} for name in streams}
    shared = {SHARED: _text({"type": _LEGACY, "state": state.get("data")})}
    return {name: {STATE: None, **shared} for name in streams}


def _stream_part(state: Mapping[str, Any]) -> tuple[str, Offset]:
    named = state["stream_descriptor"]
    return stream_name(named["name"], named.get("namespace")), {STATE: _text(state.get("stream_state"))}


def input_state(offsets: Mapping[str, Offset], catalog: StreamCatalog) -> tuple[Any, bool]:
    """Return the state to start a source with, None where there is none; and whether it had to be left out.

    It is left out when the streams' shared states differ. Such streams were in different tasks, and no order of their
    states is known.
    """
    shared = {offset.get(SHARED) for offset in offsets.values()}
    if len(shared) > 1:
        return None, True
    given = next(iter(shared), None)
    states = [_state(stream, offsets[name]) for name, stream in _entries(catalog) if _has_state(offsets.get(name))]
    if given is None:
        return [{"type": "STREAM", "stream": state} for state in states] or None, False
    whole = json.loads(given)
    if whole["type"] == _LEGACY:
        return whole["state"], False
    return [{"type": "GLOBAL", "global": {"shared_state": whole["state"], "stream_states": states}}], False


def _entries(catalog: StreamCatalog) -> list[tuple[str, Mapping[str, Any]]]:
    return list(zip(catalog.streams, catalog.tree, strict=True))


def _has_state(offset: Offset | None) -> bool:
    return offset is not None and offset.get(STATE) not in (None, "null")


def _state(stream: Mapping[str, Any], offset: Offset) -> dict[str, Any]:
    named = {"name": stream["name"], **({"namespace": stream["namespace"]} if stream.get("namespace") else {})}
    return {"stream_descriptor": named, "stream_state": json.loads(offset[STATE])}


def _text(tree: Any) -> str:
    return orjson.dumps(tree, option=orjson.OPT_SORT_KEYS).decode()


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
    """One Airbyte source, a program that writes the messages of Airbyte's protocol."""

    prefix = "airbyte"
    deleted_field = "_ab_cdc_deleted_at"

    def __init__(self, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self._errors: list[str] = []
        self._refused = False
        self._whole: set[str] = set()

    def installation(self) -> tuple[list[str], str]:
        """Return pip's words and the program's name. A manifest has fixed ones.

        The package airbyte-source-x has a program source-x.
        """
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
        """Return the arguments of a run of ``discover``."""
        return ["discover", *self._common()]

    def _common(self) -> list[str]:
        words = ["--config", self.file("config.json", self.config)]
        manifest, components = self._manifest(), self.setting("components.file")
        if manifest is not None:
            words += ["--manifest-path", self.file("manifest.yaml", manifest)]
        return [*words, "--components-path", components] if components else words

    def catalog(self, output: bytes) -> StreamCatalog:
        """Return the streams of the CATALOG message in a discovery's output."""
        return airbyte_catalog(output)

    def read_arguments(self, catalog: StreamCatalog, intake: Intake, offsets: Mapping[str, Offset]) -> list[str]:
        """Return the arguments of a run of ``read``; the configured catalog and the state are files."""
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
        """Process one message: a record, a state, a log line, an error or a changed configuration."""
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
        """Return the errors that a failed run reported."""
        return errors_of(output)

    def on_end(self, intake: Intake) -> None:
        """Forget the state of streams that are read whole: with it the source would not read them again."""
        if self.setting("interval.ms") >= 0:
            intake.state({name: {STATE: None} for name in self._whole})

    def _trace(self, message: Mapping[str, Any]) -> None:
        """Note an error. It may concern one stream while the others continue."""
        error = self.mask(error_of(message))
        if error:
            log.error("the source reports %s", error)
            self._errors.append(error)
            self._refused = self._refused or is_config_error(message)

    def judge(self) -> None:
        """Raise the errors of the run.

        Raises ExternalError: the configuration is rejected. Raises ChildFailedError: others.
        """
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
        """Return problems that involve several settings. A manifest needs no program; two manifests are too many."""
        given = [name for name in ("airbyte.manifest", "airbyte.manifest.file") if config.get(name)]
        if len(given) == 2:
            return {given[1]: [f"cannot be set together with {given[0]}"]}
        return {} if given else super().validate(config)
