"""Reads request bodies as Jackson reads them into Java's request classes: scalars become text, nulls stay.

Owns: connectors to create, configuration maps, task configuration lists.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from spark_connect_rt.config.config_def import java_trim
from spark_connect_rt.config.connector_config import NULL_VALUE
from spark_connect_rt.errors import BadConfigError, BadRequestError
from spark_connect_rt.rest.error_mapping import UnreadableBodyError
from spark_connect_rt.rest.shapes import INITIAL_STATES
from spark_connect_rt.runtime.herder.requests_api import CreateConnector
from spark_connect_rt.topics.target_state import TargetState

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
