"""The connector files of a standalone worker's command line: properties, or JSON of either shape.

JSON is a flat configuration with its ``name``, or what ``POST /connectors`` takes. Source: Java
``ConnectStandalone.parseConnectorConfigurationFile``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spark_connect_rt.base.exit_codes import EXIT_BAD_CONNECTOR_FILE
from spark_connect_rt.config.java_properties import parse_properties
from spark_connect_rt.config.repeated_settings import warn_repeated
from spark_connect_rt.errors import BadConfigError, BadRequestError, ConnectError, StartupError
from spark_connect_rt.rest.request_body import read_create
from spark_connect_rt.rest.request_offsets import with_initial_offsets
from spark_connect_rt.runtime.herder.requests_api import CreateConnector


@dataclass(frozen=True, slots=True)
class ConnectorFile:
    """One file and the connector it asks for."""

    path: Path
    request: CreateConnector


def read_connector_file(path: Path) -> ConnectorFile:
    """Return what a file asks for. Raises StartupError (exit code 20)."""
    try:
        text = path.read_text("utf-8")
        return ConnectorFile(path, _request(text, path))
    except (OSError, ValueError, ConnectError) as error:
        raise refused(path, error) from error


def refused(path: Path, error: Exception) -> StartupError:
    """Return the error that ends the worker: its file ``path`` cannot be used."""
    if isinstance(error, BadConfigError):
        why = "; ".join(f"{key}: {', '.join(lines)}" for key, lines in error.problems.items())
    else:
        why = str(getattr(error, "strerror", None) or error)
    message = f"connector file {path}: {why}"
    return StartupError(message, exit_code=EXIT_BAD_CONNECTOR_FILE, code="CRT-1089")


def _request(text: str, path: Path) -> CreateConnector:
    fields = _json(text)
    if fields is None:
        return _from_flat(warn_repeated(parse_properties(text), path))
    if isinstance(fields.get("config"), dict):
        known = {key: fields[key] for key in ("name", "config", "initial_state", "initial_offsets") if key in fields}
        body = json.dumps(known).encode()
        request = with_initial_offsets(read_create(body), body)
        if not request.name:
            raise BadRequestError("is missing the mandatory 'name' configuration")
        return request
    return _from_flat(fields)


def _from_flat(config: dict[str, Any]) -> CreateConnector:
    name = config.get("name")
    if not name:
        raise BadRequestError("is missing the mandatory 'name' configuration")
    return read_create(json.dumps({"name": name, "config": config}).encode())


def _json(text: str) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
