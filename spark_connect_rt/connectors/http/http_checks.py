"""What only the HTTP service can tell of a configuration: does it answer, and let this worker in."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from spark_connect_rt.api.outside_checks import Finding, Level
from spark_connect_rt.connectors.http.http_connection import (
    PassingFailure,
    RefusedRequestError,
    http_client,
    request,
    shown,
)
from spark_connect_rt.connectors.http.http_pages import filled

URL = "http.url"


def first_answer(values: Mapping[str, Any]) -> list[Finding]:
    """Ask for the first page as the task does. Raises BadConfigError."""
    method: str = values["http.method"]
    begins = json.loads(values["http.offset.initial"] or "{}")
    address = filled(values[URL], begins)
    params = {name: filled(param, begins) for name, param in json.loads(values["http.params"] or "{}").items()}
    client = http_client(values)
    try:
        parts: dict[str, Any] = {"params": {name: param for name, param in params.items() if param}} if params else {}
        if values["http.body"] is not None:
            parts["content"] = filled(values["http.body"], begins)
        answer = request(client, method, address, time.time(), **parts)
    except PassingFailure as failure:
        return [Finding("host", URL, Level.PROBLEM, str(failure), f"correct {URL}, or check the service")]
    except RefusedRequestError as error:
        what = f"{method} {shown(address)} returns {error.status}" if error.status else str(error)
        check, change = ("credentials", "correct http.auth.*") if error.denied else ("host", f"correct {URL}")
        return [Finding(check, URL, Level.PROBLEM, what, change)]
    finally:
        client.close()
    what = f"{method} {shown(address)} returns {answer.status_code}"
    return [Finding("credentials", URL, Level.OK, what)]
