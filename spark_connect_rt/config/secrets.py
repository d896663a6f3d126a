"""Which settings hold secrets, and what their values are: no trace and no log line may show them.

Owns the rule: a connector's settings of type PASSWORD, those of Kafka's clients under any prefix, and the secrets in a
JAAS line. A reference to a config provider is not a secret; its value becomes known where it is looked up. For a
plug-in with unknown declarations, the name and the form of the value decide.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from functools import cache
from typing import NamedTuple

from spark_connect_rt.config.client_settings import CLIENTS, client_config_def
from spark_connect_rt.config.config_def import ConfigDef, Type

# ``${alias:path:key}`` in settings: finds the references and replaces them by values (Java ``ConfigTransformer``).
#
# Pure: the caller provides the look-up. A value that was looked up is not searched again. An unknown reference stays.


_REFERENCE = re.compile(r"\$\{([^}]*?):(?:([^}]*?):)?([^}]*?)\}")

Lookup = Callable[[str, str, AbstractSet[str]], Mapping[str, str]]
"""(alias, path, keys) -> the values found; an unknown alias has none."""


class Reference(NamedTuple):
    """One ``${alias:path:key}``; without a path it is empty."""

    alias: str
    path: str
    key: str


def references(value: str | None) -> list[Reference]:
    """Return the references in one value, in order."""
    found = _REFERENCE.finditer(value or "")
    return [Reference(match.group(1), match.group(2) or "", match.group(3)) for match in found]


def resolve(config: Mapping[str, str], lookup: Lookup) -> dict[str, str]:
    """Return the settings with every reference that can be looked up replaced.

    Each (alias, path) is looked up once, with all keys that any setting wants of it.
    """
    wanted = _wanted(config.values())
    found = {place: lookup(*place, frozenset(keys)) for place, keys in wanted.items()}
    return {name: _replaced(value, found) for name, value in config.items()}


def restore(
    task_config: Mapping[str, str], connector_config: Mapping[str, str], resolved: Mapping[str, str]
) -> dict[str, str]:
    """Return a task's settings with values that came out of a reference turned back into the reference.

    Args:
        connector_config: as the user wrote it; ``resolved`` is the same with its references replaced.
    """
    return {
        name: connector_config[name]
        if references(connector_config.get(name)) and resolved.get(name) == value
        else value
        for name, value in task_config.items()
    }


def _wanted(values: Iterable[str | None]) -> dict[tuple[str, str], set[str]]:
    wanted: dict[tuple[str, str], set[str]] = {}
    for value in values:
        for alias, path, key in references(value):
            wanted.setdefault((alias, path), set()).add(key)
    return wanted


def _replaced(value: str, found: Mapping[tuple[str, str], Mapping[str, str]]) -> str:
    if not value or "${" not in value:
        return value

    def look(match: re.Match[str]) -> str:
        values = found.get((match.group(1), match.group(2) or ""), {})
        return values.get(match.group(3), match.group())

    return _REFERENCE.sub(look, value)


_IN_JAAS = re.compile(r"""(?:password|secret)\s*=\s*["']([^"']+)["']""", re.IGNORECASE)

_NAMED_LIKE_ONE = re.compile(
    r"passw|passphrase|pwd|secret|token|credential|jaas|(api|access|private|account|encryption|sas)[._-]?key",
    re.IGNORECASE,
)
_CARRIED = re.compile(r"://[^/@\s]*:[^/@\s]+@|(password|passwd|pwd|secret|token)\s*=\s*[^&;\s]", re.IGNORECASE)
_WHOLE_REFERENCE = re.compile(r"\$\{[^}]*\}")


def secret_names(definition: ConfigDef) -> tuple[str, ...]:
    """Return the names of the settings of type PASSWORD, in their order."""
    return tuple(key.name for key in definition if key.type is Type.PASSWORD)


def secrets_in(configs: Iterable[Mapping[str, str]], names: Collection[str] = ()) -> Iterator[str]:
    """Yield the values of the settings ``names`` and of the secret ones of Kafka's clients."""
    for config in configs:
        for name, value in config.items():
            if not value or references(value) or not (name in names or name.endswith(_client_secrets())):
                continue
            yield value
            yield from _IN_JAAS.findall(value)


def is_reference(value: str) -> bool:
    """Return whether a value is one reference to a config provider and nothing else: it may be shown as it stands."""
    return bool(_WHOLE_REFERENCE.fullmatch(value) and references(value))


def surely_secret(name: str, value: str) -> bool:
    """Return whether a value carries credentials inside (a JAAS line, a URL), or is a secret of Kafka's clients."""
    return bool(_CARRIED.search(value)) or any(True for _ in secrets_in([{name: value}]))


def named_like_secret(name: str) -> bool:
    """Return whether an undeclared setting is named like one that holds a secret."""
    return bool(_NAMED_LIKE_ONE.search(name))


@cache
def _client_secrets() -> tuple[str, ...]:
    found = {name for client in CLIENTS for name in secret_names(client_config_def(client))}
    return tuple(sorted(found))
