"""Which programs connectors may run and install: only those that the worker's file allows (``connectrt.programs``).

Pure.

SingerSource and AirbyteSource run a program with the worker's rights, and have pip install its requirements, which runs
code, too. A client of the REST API names both. Without this rule every client that may write a configuration could run
anything, whatever ``connectrt.plugins.install``, ``connectrt.plugins.allowed`` and ``connectrt.plugins.modules`` allow.
"""

from __future__ import annotations

import fnmatch
import json
import posixpath
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from spark_connect_rt.config.config_def import ConfigKey, Importance, Type, parse_value
from spark_connect_rt.errors import BadConfigError

PROGRAMS = "connectrt.programs"
ALLOW, DENY = "allow", "deny"
_PREFIXES = ("singer.", "airbyte.")
_FILES = ("executable", "python", "components.file")
_MANIFESTS = ("airbyte.manifest", "airbyte.manifest.file")
_MANIFEST_PACKAGE = "airbyte-cdk"
_FILE, _REQUIREMENT, _VARIABLE = "", "pip:", "env:"
"""Kinds of programs and requirements, as written in front of each in the list."""


def programs_value(value: Any) -> str | None:
    """Complain about a value of ``connectrt.programs``: allow and deny stand alone."""
    listed = list(value or ())
    alone = {ALLOW, DENY} & {str(entry).lower() for entry in listed}
    return f"{min(alone)} cannot be combined with other values" if alone and len(listed) > 1 else None


PROGRAMS_KEY = ConfigKey(
    PROGRAMS,
    Type.LIST,
    (DENY,),
    Importance.MEDIUM,
    "Programs that SingerSource and AirbyteSource may run and install, with the worker's rights. deny: none. "
    "allow: any. Otherwise a list, separated by commas, in which * matches any text. It may hold paths of "
    "executables, interpreters and component files (/opt/taps/*), and executables on the PATH. Requirements start "
    "with pip: (pip:tap-github==1.*), environment variables with env: (env:AWS_*).",
    programs_value,
)


def names_programs(config: Mapping[str, str]) -> bool:
    """Return whether a configuration names a program, a requirement or an environment variable of a program."""
    return any(True for _ in _named(config))


def refuse_programs(config: Mapping[str, str], allowed: Sequence[str]) -> None:
    """Reject programs and requirements that a connector's configuration may not name.

    Args:
        config: of a connector or a task, references resolved.
        allowed: the value of ``connectrt.programs``.

    Raises BadConfigError naming each setting, without its value: that may hold a secret.
    """
    problems: dict[str, list[str]] = {}
    for setting, kind, value in _named(config):
        why = _problem(kind, value, allowed)
        if why and why not in problems.setdefault(setting, []):
            problems[setting].append(why)
    if found := {setting: complaints for setting, complaints in problems.items() if complaints}:
        raise BadConfigError(found)


def allowed_programs(worker: Mapping[str, str]) -> Sequence[str]:
    """Return ``connectrt.programs`` of a worker's settings, which were checked when it started."""
    return [entry for entry in parse_value(Type.LIST, worker.get(PROGRAMS) or DENY) if entry]


def _named(config: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Yield (setting, kind, value) of everything that decides which code is run or installed."""
    for prefix in _PREFIXES:
        for name in _FILES:
            if value := config.get(f"{prefix}{name}"):
                yield f"{prefix}{name}", _FILE, value
        for word in _words(config.get(f"{prefix}requirement") or ""):
            yield f"{prefix}requirement", _REQUIREMENT, word
        for variable in _variables(config.get(f"{prefix}environment") or "{}"):
            yield f"{prefix}environment", _VARIABLE, variable
    given = [name for name in _MANIFESTS if config.get(name)]
    if given and not config.get("airbyte.requirement") and not config.get("airbyte.executable"):
        yield given[0], _REQUIREMENT, _MANIFEST_PACKAGE


def _words(requirement: str) -> list[str]:
    try:
        return shlex.split(requirement)
    except ValueError:  # an open quote: nothing can be installed by it
        return requirement.split()


def _variables(text: str) -> list[str]:
    try:
        found = json.loads(text)
    except ValueError:
        return []  # the connector's own definition reports the error
    return [str(name) for name in found] if isinstance(found, dict) else []


def _problem(kind: str, value: str, allowed: Sequence[str]) -> str | None:
    if value.startswith("-"):
        return (
            "must not start with - or contain a word that does, because options of pip and of programs are not allowed"
        )
    if [entry.lower() for entry in allowed] == [ALLOW]:
        return None
    if kind == _FILE and "/" in value and value != posixpath.normpath(value):
        return "must be a plain path, without . and .."
    wanted = f"{kind}{value}"
    if any(_matches(wanted, entry, kind) for entry in allowed if entry.lower() not in (ALLOW, DENY)):
        return None
    listed = f", with the prefix {kind}" if kind else ""
    return (
        f"runs code on this worker and is not allowed. Add it to {PROGRAMS} in the worker's file{listed}, or "
        f"set that to {ALLOW}"
    )


def _matches(wanted: str, pattern: str, kind: str) -> bool:
    """Return whether a pattern allows a value. One of a package's name and version allows no address of a file."""
    if wanted == pattern:
        return True
    elsewhere = kind == _REQUIREMENT and any(mark in wanted and mark not in pattern for mark in "/@")
    return not elsewhere and fnmatch.fnmatchcase(wanted, pattern)
