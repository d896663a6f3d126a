"""Which settings of a connector the history must not show, and a configuration without them.

Owns the rule. A value that is one reference to a config provider is shown as it stands. Hidden are settings of type
PASSWORD, those of Kafka's clients that hold secrets under whatever prefix, values that carry credentials inside (a JAAS
line, a URL with a password), and what no plug-in here declares but is named like a secret. Where the connector's class
is not known here everything that it alone would declare is hidden: nobody can say what holds a secret.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from spark_connect_rt.config.secrets import is_reference, named_like_secret, surely_secret

HIDDEN = "[hidden]"
_OF_EVERY_CONNECTOR = ("name", "connector.class", "tasks.max", "topics", "topics.regex")


@dataclass(frozen=True, slots=True)
class DeclaredSettings:
    """What is declared of a connector's settings: name -> whether it holds a secret.

    ``complete`` False: the class of the connector, or of something it names, is not known here.
    """

    secret: Mapping[str, bool] = field(default_factory=dict)
    complete: bool = False


def hidden_settings(config: Mapping[str, str], declared: DeclaredSettings) -> frozenset[str]:
    """Return the names of the settings that are not shown."""
    return frozenset(name for name, value in config.items() if value and _is_hidden(name, value, declared))


def shown(config: Mapping[str, str], hidden: Iterable[str]) -> dict[str, str]:
    """Return a configuration with these settings hidden."""
    names = frozenset(hidden)
    return {name: HIDDEN if name in names else value for name, value in config.items()}


def changed_unseen(
    before: Mapping[str, str] | None, after: Mapping[str, str] | None, hidden: Iterable[str]
) -> tuple[str, ...]:
    """Return the hidden settings whose values differ; both maps as they are, secrets included."""
    old, new = before or {}, after or {}
    return tuple(sorted(name for name in hidden if name in old and name in new and old[name] != new[name]))


def _is_hidden(name: str, value: str, declared: DeclaredSettings) -> bool:
    if is_reference(value):
        return False
    if declared.secret.get(name) or surely_secret(name, value):
        return True
    if name in declared.secret or name in _OF_EVERY_CONNECTOR:
        return False
    return not declared.complete or named_like_secret(name)
