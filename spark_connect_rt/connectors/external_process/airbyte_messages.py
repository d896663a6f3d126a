"""Airbyte's catalog and state, as trees. Pure.

A stream is named ``namespace.name``, or ``name`` where it has no namespace. State comes by stream (STREAM), or by
stream and for all together (GLOBAL), or, of old connectors, in one piece.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from spark_connect_rt.connectors.external_process.intake import SHARED, STATE, Offset
from spark_connect_rt.connectors.external_process.program import Catalog
from spark_connect_rt.errors import ConnectError, DataError

INCREMENTAL, FULL_REFRESH = "incremental", "full_refresh"
_LEGACY = "LEGACY"


def stream_name(name: str, namespace: str | None) -> str:
    """Return what state, topics and settings call a stream."""
    return f"{namespace}.{name}" if namespace else name


def airbyte_catalog(output: bytes) -> Catalog:
    """Return the catalog among the messages of a discovery. Raises ConnectError: there is none; says what it said."""
    for message in map(_object, output.splitlines()):
        if message.get("type") == "CATALOG":
            streams = message["catalog"]["streams"]
            return Catalog(tuple(stream_name(stream["name"], stream.get("namespace")) for stream in streams), streams)
    raise ConnectError(f"discovery printed no Airbyte catalog: {errors_of(output) or 'no error either'}")


def errors_of(output: bytes) -> str:
    """Return what the messages of an output say of errors."""
    return "; ".join(filter(None, map(error_of, map(_object, output.splitlines()))))


def _object(line: bytes) -> dict[str, Any]:
    try:
        found = orjson.loads(line)
    except orjson.JSONDecodeError:
        return {}
    return found if isinstance(found, dict) else {}


def error_of(message: Mapping[str, Any]) -> str:
    """Return what a TRACE message of type ERROR says, empty of any other."""
    trace = message.get("trace") or {}
    if message.get("type") != "TRACE" or trace.get("type") != "ERROR":
        return ""
    error = trace.get("error") or {}
    return f"{error.get('failure_type') or 'error'}: {error.get('message')} ({error.get('internal_message')})"


def is_config_error(message: Mapping[str, Any]) -> bool:
    """Whether an ERROR says that only another configuration can help."""
    return ((message.get("trace") or {}).get("error") or {}).get("failure_type") == "config_error"


def configured(
    catalog: Catalog,
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
    """Return a STATE message's state by stream. Raises DataError: it is none."""
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


def input_state(offsets: Mapping[str, Offset], catalog: Catalog) -> tuple[Any, bool]:
    """Return the state to start a source with, None where there is none; and whether it had to be left out.

    It is left out when streams differ in what they share: they were in different tasks, and no one knows which is less.
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


def _entries(catalog: Catalog) -> list[tuple[str, Mapping[str, Any]]]:
    return list(zip(catalog.streams, catalog.tree, strict=True))


def _has_state(offset: Offset | None) -> bool:
    return offset is not None and offset.get(STATE) not in (None, "null")


def _state(stream: Mapping[str, Any], offset: Offset) -> dict[str, Any]:
    named = {"name": stream["name"], **({"namespace": stream["namespace"]} if stream.get("namespace") else {})}
    return {"stream_descriptor": named, "stream_state": json.loads(offset[STATE])}


def _text(tree: Any) -> str:
    return orjson.dumps(tree, option=orjson.OPT_SORT_KEYS).decode()
