"""Any Singer tap as a source: its streams become topics, its STATE messages source offsets.

Partition ``{"stream": tap_stream_id}``; the offset holds that stream's bookmark. A restarted tap gets the state of its
last durable STATE message and sends everything after it again: at-least-once.
"""

from __future__ import annotations

import copy
import gzip
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from spark_connect_rt.config.config_def import ConfigDef, ConfigKey, Importance, Type
from spark_connect_rt.config.settings_group import json_object, text
from spark_connect_rt.config.validators import one_of
from spark_connect_rt.connectors.external_process.program import Program, StreamCatalog
from spark_connect_rt.connectors.external_process.program_output import SHARED, STATE, Intake, Offset
from spark_connect_rt.connectors.external_process.program_settings import json_of, program_settings
from spark_connect_rt.connectors.external_process.program_source import ProgramSourceConnector
from spark_connect_rt.connectors.external_process.program_task import ProgramSourceTask
from spark_connect_rt.errors import ConnectError, DataError

# Singer's catalog, its state and its batches, as trees. Pure, but for the files of a batch.
#
# A tap has one state for all of its streams. It is stored by stream (``bookmarks``), so that streams may move between
# tasks. Other parts of the state are stored with each of the task's streams.


_BOOKMARKS, _CURRENT = "bookmarks", "currently_syncing"
METHODS = ("auto", "FULL_TABLE", "INCREMENTAL", "LOG_BASED")


def singer_catalog(output: bytes) -> StreamCatalog:
    """Return the catalog that a tap's discovery printed. Raises ConnectError: it is not a valid catalog."""
    try:
        tree = orjson.loads(output)
        return StreamCatalog(tuple(stream_id(stream) for stream in tree["streams"]), tree)
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise ConnectError(f"discovery printed no Singer catalog: {error!r}") from error


def stream_id(entry: Mapping[str, Any]) -> str:
    """Return the name of a catalog's stream in state and settings."""
    return str(entry.get("tap_stream_id") or entry["stream"])


def selected(
    catalog: StreamCatalog,
    streams: Sequence[str],
    method: str = "auto",
    replication_keys: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return the catalog with just these streams selected, and every column that may be.

    Args:
        method: of replication; ``auto`` keeps the tap's own.
        replication_keys: stream -> column.

    Raises ConnectError: a stream is not in it.
    """
    if missing := set(streams) - set(catalog.streams):
        raise ConnectError(
            f"the tap no longer offers {', '.join(sorted(missing))}. It offers {', '.join(catalog.streams)}"
        )
    tree: dict[str, Any] = copy.deepcopy(catalog.tree)
    for entry in tree["streams"]:
        name = stream_id(entry)
        root = _root_metadata(entry)
        root["selected"] = name in streams
        if method != "auto":
            root["replication-method"] = entry["replication_method"] = method
        key = (replication_keys or {}).get(name)
        if key:
            root["replication-key"] = entry["replication_key"] = key
        for item in entry["metadata"]:
            about = item["metadata"]
            if about is not root and about.get("inclusion") != "unsupported":
                about.setdefault("selected", True)
    return tree


def _root_metadata(entry: dict[str, Any]) -> dict[str, Any]:
    entries = entry.setdefault("metadata", [])
    for item in entries:
        if not item["breadcrumb"]:
            found: dict[str, Any] = item["metadata"]
            return found
    entries.append({"breadcrumb": [], "metadata": {}})
    return _root_metadata(entry)


def parts_of(state: Any, streams: Sequence[str]) -> dict[str, Offset]:
    """Return the value of a STATE by stream. Raises DataError: it is not an object."""
    if not isinstance(state, dict):
        raise DataError(f"the state is not an object: {state!r:.80}")
    bookmarks = state.get(_BOOKMARKS)
    own = bookmarks if isinstance(bookmarks, dict) else {}
    rest = {name: value for name, value in state.items() if name not in (_BOOKMARKS, _CURRENT)}
    others = {name: bookmark for name, bookmark in own.items() if name not in streams}
    shared = {SHARED: _text({**rest, **({_BOOKMARKS: others} if others else {})})} if rest or others else {}
    return {name: {STATE: _text(own.get(name, {})), **shared} for name in streams}


def joined_state(offsets: Mapping[str, Offset]) -> tuple[dict[str, Any] | None, list[str]]:
    """Return the state to start a tap with, None where there is none, and the names of its parts that are left out.

    A shared part is left out if two streams' offsets differ in it, because they were in different tasks. The tap then
    reads more than necessary.
    """
    shared: dict[str, Any] = {}
    disputed: set[str] = set()
    bookmarks: dict[str, Any] = {}
    for offset in offsets.values():
        for name, value in json.loads(offset.get(SHARED) or "{}").items():
            if shared.setdefault(name, value) != value:
                disputed.add(name)
    for name in disputed:
        del shared[name]
    for name, offset in offsets.items():
        own = json.loads(offset.get(STATE) or "{}")
        if own:
            bookmarks[name] = own
    state = {**shared, _BOOKMARKS: {**shared.get(_BOOKMARKS, {}), **bookmarks}} if shared or bookmarks else None
    return state, sorted(disputed)


def _text(tree: Any) -> str:
    return orjson.dumps(tree, option=orjson.OPT_SORT_KEYS).decode()


def batch_tables(message: Mapping[str, Any]) -> Iterator[tuple[Path, pa.Table | list[Any]]]:
    """Yield each file of a BATCH message and its records: a table (parquet), or objects (jsonl).

    Raises DataError: it is not on this machine, of another format, or cannot be read.
    """
    encoding = message["encoding"]
    kind, compression = encoding.get("format"), encoding.get("compression") or "none"
    for address in message["manifest"]:
        path = _local(address)
        try:
            if kind == "parquet":
                yield path, pq.read_table(path)
            elif kind == "jsonl" and compression in ("none", "gzip"):
                content = path.read_bytes()
                lines = (gzip.decompress(content) if compression == "gzip" else content).splitlines()
                yield path, [orjson.loads(line) for line in lines if line.strip()]
            else:
                raise DataError(
                    f"a batch of format {kind}, compression {compression} cannot be read. Use jsonl (gzip) or parquet"
                )
        except (OSError, EOFError, orjson.JSONDecodeError, pa.ArrowException) as error:
            raise DataError(f"the batch {path} cannot be read: {error}") from error


def _local(address: str) -> Path:
    parts = urlsplit(address)
    if parts.scheme not in ("", "file") or parts.netloc:
        raise DataError(f"a batch on another machine cannot be read: {parts.scheme}://{parts.netloc}. Use file://")
    return Path(unquote(parts.path))


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
    """One Singer tap, a program that writes Singer messages."""

    prefix = "singer"
    deleted_field = "_sdc_deleted_at"

    def discover_arguments(self) -> list[str] | None:
        """Return the arguments of a discovery run, None if the catalog is a setting."""
        if self.setting("catalog") is not None:
            return None
        return ["--config", self.file("config.json", self.config), "--discover"]

    def catalog(self, output: bytes) -> StreamCatalog:
        """Return the streams of the catalog that is set, or else of the discovery's output."""
        given = self.setting("catalog")
        return singer_catalog(output if given is None else given.encode())

    def read_arguments(self, catalog: StreamCatalog, intake: Intake, offsets: Mapping[str, Offset]) -> list[str]:
        """Return the arguments of a run that reads; configuration, catalog and state are files."""
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
        """Process one message: RECORD, STATE, SCHEMA, BATCH or ACTIVATE_VERSION."""
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
