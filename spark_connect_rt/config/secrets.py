"""Which settings hold secrets, and what these are: no trace and no log line may show them.

Owns the rule: a connector's settings of type PASSWORD, those of Kafka's clients under whatever prefix, and what a JAAS
line holds. A reference to a config provider is none: what it stands for is known where it is looked up. Where nobody
knows what a plug-in declares, it is guessed by the name and by what a value carries inside.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache

from spark_connect_rt.config.client_settings import CLIENTS, client_config_def
from spark_connect_rt.config.config_def import ConfigDef, Type
from spark_connect_rt.config.indirection import references

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
    """Return whether a setting that nobody declares is named like one that holds a secret."""
    return bool(_NAMED_LIKE_ONE.search(name))


@cache
def _client_secrets() -> tuple[str, ...]:
    found = {name for client in CLIENTS for name in secret_names(client_config_def(client))}
    return tuple(sorted(found))
