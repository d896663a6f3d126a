"""Reads the body of ``PATCH /connectors/{name}/offsets`` (Java ``ConnectorOffsets``): numbers stay numbers."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from spark_connect_rt.errors import BadRequestError
from spark_connect_rt.rest.error_mapping import UnreadableBodyError
from spark_connect_rt.rest.request_body import parsed, unknown_field, wrong_type
from spark_connect_rt.runtime.herder.requests_api import CreateConnector
from spark_connect_rt.topics.offset_changes import OffsetPair

NOTHING = "Partitions / offsets need to be provided for an alter offsets request"


def read_offsets(body: bytes) -> list[OffsetPair]:
    """Return (partition, offset) in the order of the body. Raises UnreadableBodyError, BadRequestError (none)."""
    fields = _object(_json(body), ("offsets",), "ConnectorOffsets")
    entries = fields.get("offsets")
    if entries is not None and not isinstance(entries, list):
        raise UnreadableBodyError(wrong_type("ArrayList<ConnectorOffset>", entries))
    if not entries:
        raise BadRequestError(NOTHING)
    return [_pair(entry) for entry in entries]


def with_initial_offsets(request: CreateConnector, body: bytes) -> CreateConnector:
    """Return the request with the ``initial_offsets`` of its body (KIP-995). Raises BadRequestError: they are none."""
    fields = _json(body)
    entries = fields.get("initial_offsets") if isinstance(fields, dict) else None
    if entries is None:
        return request
    if not isinstance(entries, list) or not entries:
        raise BadRequestError('initial_offsets: must be a non-empty list of {"partition": {...}, "offset": {...}}')
    try:
        return replace(request, initial_offsets=[_pair(entry) for entry in entries])
    except UnreadableBodyError as error:
        raise BadRequestError(f"initial_offsets: {error}") from error


def _pair(entry: Any) -> OffsetPair:
    fields = _object(entry, ("partition", "offset"), "ConnectorOffset")
    partition, offset = fields.get("partition"), fields.get("offset")
    for name, value in (("partition", partition), ("offset", offset)):
        if value is not None and not isinstance(value, dict):
            raise UnreadableBodyError(f"{wrong_type('Map', value)} ('{name}' of an entry of 'offsets')")
    return partition, offset


def _object(value: Any, known: tuple[str, ...], what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UnreadableBodyError(wrong_type(what, value))
    for name in value:
        if name not in known:
            raise UnreadableBodyError(unknown_field(name, known))
    return value


def _json(body: bytes) -> Any:
    try:
        return parsed(body, json.JSONDecoder(parse_constant=_refuse))
    except (ValueError, RecursionError) as error:
        raise UnreadableBodyError(f"Cannot deserialize value: the request body is not JSON: {error}") from error


def _refuse(literal: str) -> None:
    raise ValueError(f"{literal} is not JSON")
