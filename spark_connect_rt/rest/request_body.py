"""Reads request bodies as Jackson reads them into Java's request classes: scalars become text, nulls stay.

Owns: connectors to create, configuration maps, task configuration lists.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from spark_connect_rt.base.json_text import decode_json
from spark_connect_rt.config.config_def import java_trim
from spark_connect_rt.config.connector_config import NULL_VALUE
from spark_connect_rt.errors import BadConfigError, BadRequestError, DataError
from spark_connect_rt.rest.error_mapping import UnreadableBodyError
from spark_connect_rt.rest.shapes import INITIAL_STATES
from spark_connect_rt.runtime.herder.herder_requests import CreateConnector
from spark_connect_rt.topics.config_records import TargetState
from spark_connect_rt.topics.offset_changes import OffsetPair

_CREATE_FIELDS = ("config", "name", "initial_state", "initial_offsets")


class _Number(str):
    """A JSON number as it was written: a setting keeps its digits."""

    __slots__ = ()


def read_create(body: bytes) -> CreateConnector:
    """Return the body of ``POST /connectors`` as a request; its ``config`` holds the name already.

    Its ``initial_offsets`` are read by request_offsets.py, where numbers stay numbers.

    Raises UnreadableBodyError, BadRequestError, BadConfigError.
    """
    fields = _read_json(body)
    if fields is None:
        raise UnreadableBodyError("The request body is empty. Send the name and config of a connector")
    if not isinstance(fields, dict):
        raise UnreadableBodyError(wrong_type("CreateConnectorRequest", fields))
    for field in fields:
        if field not in _CREATE_FIELDS:
            raise UnreadableBodyError(unknown_field(field, _CREATE_FIELDS))
    name = java_trim(_text(fields.get("name")) or "")
    if fields.get("config") is None:
        raise UnreadableBodyError("The request has no 'config'")
    initial_state = _initial_state(_text(fields.get("initial_state")))
    return CreateConnector(name, with_name(name, _settings(fields["config"])), initial_state)


def read_config(name: str, body: bytes) -> dict[str, str]:
    """Return the configuration of ``PUT /connectors/{name}/config``, the name put in."""
    fields = _read_json(body)
    if fields is None:
        raise UnreadableBodyError("The request body is empty. Send a configuration")
    return with_name(name, _settings(fields))


def config_of(fields: Any) -> dict[str, str]:
    """Return a configuration that is a part of a body: an object of texts, numbers and switches.

    Raises UnreadableBodyError, BadConfigError.
    """
    if isinstance(fields, dict):
        fields = {name: json.dumps(field) if type(field) in (int, float) else field for name, field in fields.items()}
    return _settings(fields)


def read_settings(body: bytes) -> dict[str, str | None]:
    """Return the configuration of ``PUT /connector-plugins/{plugin}/config/validate``, nulls among it."""
    fields = _read_json(body)
    if fields is None:
        raise UnreadableBodyError("The request body is empty. Send a configuration")
    return _texts(fields)


def read_patch(body: bytes) -> dict[str, str | None]:
    """Return the settings of ``PATCH /connectors/{name}/config``, None removing one (or any such map of texts)."""
    return _texts(_read_json(body))


def read_task_configs(body: bytes) -> list[dict[str, str]]:
    """Return the task configurations of the internal ``POST /connectors/{name}/tasks``."""
    fields = _read_json(body)
    if not isinstance(fields, list):
        raise UnreadableBodyError(wrong_type("List", fields))
    return [_settings(field) for field in fields]


def with_name(name: str, config: Mapping[str, str]) -> dict[str, str]:
    """Put the connector's name into its configuration. Raises BadRequestError when it names another."""
    included = config.get("name", name)
    if included != name:
        raise BadRequestError(
            f"Connector name configuration ({included}) doesn't match connector name in the URL ({name})"
        )
    return {**config, "name": name}


def _initial_state(text: str | None) -> TargetState | None:
    if text is None:
        return None
    if text.upper() not in INITIAL_STATES:
        raise UnreadableBodyError(f"initial_state: '{text}' is not valid. Use one of {', '.join(INITIAL_STATES)}")
    return INITIAL_STATES[text.upper()]


def _texts(fields: Any) -> dict[str, str | None]:
    if not isinstance(fields, dict):
        raise UnreadableBodyError(wrong_type("Map", fields))
    return {str(_text(key)): _text(value) for key, value in fields.items()}


def _settings(fields: Any) -> dict[str, str]:
    texts = _texts(fields)
    problems = {key: [NULL_VALUE] for key, value in texts.items() if value is None}
    if problems:
        raise BadConfigError(problems)
    return {key: value for key, value in texts.items() if value is not None}


def _text(value: Any) -> str | None:
    """Return a scalar as text, as Jackson coerces it; None stays None."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str):
        raise UnreadableBodyError(wrong_type("String", value))
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise UnreadableBodyError(f"Text cannot be encoded as UTF-8: {error.reason}") from error
    return str(value)


def _read_json(body: bytes) -> Any:
    if not body.strip():
        return None
    try:
        return parsed(body, _DECODER)
    except (ValueError, RecursionError) as error:
        raise UnreadableBodyError(f"The request body is not JSON: {error}") from error


def parsed(body: bytes, decoder: json.JSONDecoder) -> Any:
    """Return the one document in ``body``: UTF-8, -16 or -32, with or without a mark, as Jackson. Raises ValueError."""
    return decoder.decode(body.decode(json.detect_encoding(body)))


def unknown_field(field: str, known: Sequence[str]) -> str:
    """Return what Jackson says of a field that a request does not have."""
    names = ", ".join(f'"{name}"' for name in known)
    return f'Unrecognized field "{field}" ({len(known)} known properties: {names})'


def wrong_type(wanted: str, value: Any) -> str:
    """Return what Jackson says of a value of another type than ``wanted``."""
    if isinstance(value, (int, float)) and wanted in _CLASSES:
        return f"Cannot construct instance of `{wanted}` from the number {value}"
    kinds: dict[type[Any], tuple[str, str]] = {dict: ("Object", "START_OBJECT"), list: ("Array", "START_ARRAY")}
    kind, token = kinds.get(type(value), ("scalar", "VALUE_STRING"))
    return f"Cannot deserialize value of type `{wanted}` from {kind} value (token `JsonToken.{token}`)"


def _refuse(literal: str) -> None:
    raise ValueError(f"{literal} is not JSON")


_CLASSES = ("ConnectorOffsets", "ConnectorOffset")
_DECODER = json.JSONDecoder(parse_int=_Number, parse_float=_Number, parse_constant=_refuse)


# What requests of the management API hold: JSON objects of known fields, texts, switches, numbers.
#
# Owns their refusals, each a BadRequestError that names what is needed.


DIGITS_MOST = 18


def json_object(data: bytes, known: Sequence[str]) -> dict[str, Any]:
    """Return a body that is an object of some of these fields.

    An empty body is none: ``{}`` is sent as JSON, which a page in a browser cannot send to a foreign address.
    """
    try:
        body = decode_json(data) if data.strip() else None
    except DataError as error:
        raise BadRequestError(f"the body is {error}") from error
    if not isinstance(body, dict):
        raise BadRequestError(
            f"the body must be a JSON object with fields of {', '.join(known)}" if known else "the body must be {}"
        )
    if unknown := sorted(set(body) - set(known)):
        what = f"Use {', '.join(known)}" if known else "The body must be {}"
        raise BadRequestError(f"unknown fields in the body: {', '.join(unknown)[:200]}. {what}")
    return body


def text_field(body: Mapping[str, Any], name: str) -> str | None:
    """Return a field that is a text or left out."""
    value = body.get(name)
    if value is not None and not isinstance(value, str):
        raise BadRequestError(f"{name}: must be a string")
    return value or None


def object_field(body: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a field that is an object or left out."""
    value = body.get(name)
    if value is not None and not isinstance(value, dict):
        raise BadRequestError(f"{name}: must be an object")
    return value or {}


def switch_field(body: Mapping[str, Any], name: str, *, or_null: bool = False) -> bool:
    """Return a field that is true, false or left out; ``or_null``: null is false, too."""
    value = body.get(name, False)
    if isinstance(value, bool) or (or_null and value is None):
        return bool(value)
    raise BadRequestError(f"{name}: must be true or false")


def whole_number(text: str | None, name: str, digits: int = DIGITS_MOST) -> int | None:
    """Return a parameter as a number that is not negative; None where it is not given."""
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= digits):
        raise BadRequestError(f"{name}: must be a whole number of at most {digits} digits, and not negative")
    return int(text)


def number_up_to(text: str | None, name: str, default: int, most: int) -> int:
    """Return a parameter as a number that is not negative; one above ``most`` is that, none given the default."""
    found = whole_number(text or None, name, digits=20)
    return default if found is None else min(found, most)


# Reads the body of ``PATCH /connectors/{name}/offsets`` (Java ``ConnectorOffsets``): numbers stay numbers.


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
