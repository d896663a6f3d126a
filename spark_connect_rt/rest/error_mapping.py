"""Errors to HTTP: the only module that decides statuses (Java ``ConnectExceptionMapper``).

Body: ``{"error_code": status, "message": Java's words}``; what Java does not say goes into new fields only:
``code`` (stable), ``hint`` (what to do), ``problems`` (of a configuration, by key).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from spark_connect_rt.errors import (
    AlreadyExistsError,
    BadConfigError,
    BadRequestError,
    ConfigConflictError,
    ConnectError,
    ForbiddenError,
    NotAssignedError,
    NotFoundError,
    NotLeaderError,
    PluginInUseError,
    RebalanceInProgressError,
    ShuttingDownError,
    TimedOutError,
    UnsafeChangeError,
)
from spark_connect_rt.rest.shapes import Error
from spark_connect_rt.topics.config_diff import SettingChange

NO_LEADER = "Cannot complete request momentarily due to no known leader URL, likely because a rebalance was underway."
STALE = (
    "Cannot complete request momentarily due to stale configuration (typically caused by a concurrent config change)"
)
CONFLICT = "Cannot complete request because of a conflicting operation (e.g. worker rebalance)"
MOMENTARY = frozenset({NO_LEADER, STALE, CONFLICT})
"""409s, ours or Java's, that a rebalance explains; the others (a name that is taken) are final."""


class RestError(ConnectError):
    """An answer whose status and words are settled already (a forwarded one, a signature check)."""

    def __init__(self, status: int, message: str, *, code: str | None = None) -> None:
        super().__init__(message, code=code)
        self.status = status


class ConfigChangedError(RestError):
    """The configuration was changed since the client read it; ``diff``: what, secrets hidden."""

    def __init__(self, message: str, diff: Sequence[SettingChange]) -> None:
        super().__init__(412, message, code=ConfigConflictError.code)
        self.diff = diff


class UnreadableBodyError(ConnectError):
    """The body is not the JSON that this endpoint reads. Java answers these 500, and so do we."""

    code = "CRT-1032"


HTTP_STATUS: dict[type[ConnectError], int] = {
    BadConfigError: 400,
    BadRequestError: 400,
    ForbiddenError: 403,
    NotFoundError: 404,
    AlreadyExistsError: 409,
    PluginInUseError: 409,
    ConfigConflictError: 412,
    UnsafeChangeError: 409,
    NotLeaderError: 409,
    NotAssignedError: 409,
    RebalanceInProgressError: 409,
}

HINTS: dict[type[ConnectError], str] = {
    BadConfigError: "Correct every setting listed in 'problems', then send the request again.",
    AlreadyExistsError: "Choose another name, or PUT /connectors/{name}/config to change this one.",
    ConfigConflictError: "Read the configuration again, review 'diff', then repeat your change.",
    PluginInUseError: "Delete or change the listed connectors, then send the request again.",
    NotLeaderError: "Send the request again in a moment.",
    NotAssignedError: "Send the request again in a moment.",
    RebalanceInProgressError: "Send the request again in a moment.",
    TimedOutError: "GET /health and GET /admin/story show the state of the worker.",
    ShuttingDownError: "Send the request to another worker of the group.",
    UnreadableBodyError: "Send JSON, with the header Content-Type: application/json.",
}


INSTALLED_HINT = "Install another version, or DELETE /admin/plugins/{name}/{version} first."
NOT_FOUND_HINTS = (
    ("/admin/loggers", "GET /admin/loggers lists the loggers."),
    ("/admin/plugins", "GET /admin/plugins lists the installed plug-ins."),
    ("/connector-plugins", "GET /connector-plugins?connectorsOnly=false lists the plug-ins."),
    ("/tasks/", "GET /connectors/{name}/tasks lists the tasks of a connector."),
    ("/connectors", "GET /connectors lists the connectors."),
)
"""(what the path of the request holds, where to look)."""


@dataclass(frozen=True, slots=True)
class ErrorAnswer:
    """Status and body of a refusal."""

    status: int
    body: Error


def status_of(error: ConnectError) -> int:
    """Return the HTTP status of the nearest mapped ancestor, else 500."""
    if isinstance(error, RestError):
        return error.status
    return next((HTTP_STATUS[kind] for kind in type(error).__mro__ if kind in HTTP_STATUS), 500)


def answer_of(error: ConnectError, path: str = "/connectors") -> ErrorAnswer:
    """Return what a refusal is answered with; ``path`` is what was asked for."""
    status = status_of(error)
    problems = error.problems if isinstance(error, BadConfigError) else None
    diff = tuple(error.diff) if isinstance(error, ConfigChangedError) else None
    return ErrorAnswer(status, Error(status, message_of(error), error.code, _hint(error, path), problems, diff))


def _hint(error: ConnectError, path: str) -> str | None:
    if isinstance(error, AlreadyExistsError) and "/admin/plugins" in path:
        return INSTALLED_HINT
    if isinstance(error, NotFoundError):
        return next((hint for part, hint in NOT_FOUND_HINTS if part in path), None)
    return next((HINTS[kind] for kind in type(error).__mro__ if kind in HINTS), None)


def message_of(error: ConnectError) -> str:
    """Return Java's words for an error."""
    if isinstance(error, BadConfigError):
        return invalid_config_message(error.problems)
    if isinstance(error, RebalanceInProgressError):
        return STALE
    return str(error)


def invalid_config_message(problems: Mapping[str, Any]) -> str:
    """Return Java's list of everything that is wrong with a configuration."""
    lines = [line for why in problems.values() for line in why]
    return "\n".join(
        [
            f"Connector configuration is invalid and contains the following {len(lines)} error(s):",
            *lines,
            "You can also find the above list of errors at the endpoint "
            "`/connector-plugins/{connectorType}/config/validate`",
        ]
    )


def answer_of_http(status: int) -> ErrorAnswer:
    """Return the answer of the HTTP layer itself (no such path, wrong method), in JAX-RS's words."""
    return ErrorAnswer(status, Error(status, f"HTTP {status} {HTTPStatus(status).phrase}"))


def answer_of_unexpected(error: Exception) -> ErrorAnswer:
    """Return the answer to an unforeseen failure; its trace goes to the log, not over the wire."""
    return ErrorAnswer(500, Error(500, str(error) or type(error).__name__, ConnectError.code))
