"""A worker's refusals for users of the command line: the worker's own advice names requests of REST. Pure."""

from __future__ import annotations

import re

from spark_connect_rt.rest.client.refusals import RefusedError

_LOGIN = (
    "HTTP 401: the worker requires other credentials. Store them in a context: connectrt config set-context NAME "
    "--username NAME --password -  (or --token -, --cert FILE)"
)
_COMMANDS = (
    ("GET /health and GET /admin/story show", "connectrt get workers and connectrt events show"),
    ("GET /admin/loggers", "connectrt get loggers"),
    ("GET /admin/plugins", "connectrt plugins list"),
    ("DELETE /admin/plugins/{name}/{version}", "connectrt plugins remove NAME VERSION"),
    ("GET /connector-plugins?connectorsOnly=false", "connectrt get plugins"),
    ("GET /connectors/{name}/tasks", "connectrt get tasks NAME"),
    ("PUT /connectors/{name}/config", "connectrt apply -f FILE"),
    ("GET /connectors", "connectrt get connectors"),
    ("Send the request again in a moment", "Try again in a moment"),
    ("Send the request to another worker of the group", "Ask another worker of the group: --url"),
    ("then send the request again", "then try again"),
    ("Read the configuration again, review 'diff', then repeat", "Read the configuration again, then repeat"),
)
"""(words of a hint, what they are here); the longer path of two is first."""
_NO_CLASS = re.compile(
    r"Failed to find any class that implements Connector and which name matches (?P<name>\S+), "
    r"available connectors are: (?P<there>[^;]*)(?P<rest>.*)",
    re.DOTALL,
)
_JAVA_NAME = re.compile(r"name='([^']+)'")  # a Java worker lists PluginDesc{klass=..., name='x.Y', ...}
_NEAR = 3


def refusal_lines(error: RefusedError) -> list[str]:
    """Return the lines of a refusal: code and message, each problem, what to do."""
    if error.problems:  # the message contains each, too, without its setting
        first = str(error).partition("\n")[0]
        problems = [f"  {key}: {in_short(why)}" for key, reasons in error.problems.items() for why in reasons]
        return [f"{error.code}: {first}", *problems]
    hint = error.hint or (_LOGIN if error.status == 401 else None)
    return [f"{error.code}: {in_short(str(error))}", *([as_command(hint)] if hint else [])]


def as_command(hint: str) -> str:
    """Return a hint with commands in place of requests."""
    for request, command in _COMMANDS:
        hint = hint.replace(request, command)
    return hint


def in_short(message: str) -> str:
    """Return a message; in place of a list of all connector classes those that are near the name that was asked for."""
    found = _NO_CLASS.fullmatch(message)
    if found is None:
        return message
    near = _near(found["name"], _JAVA_NAME.findall(found["there"]) or found["there"].split(", "))
    meant = f" did you mean {', '.join(near)}?" if near else ""
    return f"no connector class {found['name']};{meant} connectrt get plugins lists all.{found['rest']}"


def _near(name: str, there: list[str]) -> list[str]:
    from difflib import get_close_matches

    by_short: dict[str, str] = {}
    for java_class in there:
        short = java_class.rpartition(".")[2]
        by_short.setdefault(short.removesuffix("Connector").lower(), short)
    wanted = name.rpartition(".")[2].removesuffix("Connector").lower()
    return [by_short[close] for close in get_close_matches(wanted, by_short, n=_NEAR)]
