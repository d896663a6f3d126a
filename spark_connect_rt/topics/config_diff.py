"""The differences between two configurations, and the configuration that a rollback writes. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from spark_connect_rt.config.secrets import is_reference, named_like_secret, surely_secret

# Which settings of a connector the history must not show, and a configuration without them.
#
# Owns the rule. A value that is one reference to a config provider is shown unchanged. These are hidden:
#
# - settings of type PASSWORD, and those of Kafka's clients that hold secrets, under any prefix
# - values that carry credentials inside (a JAAS line, a URL with a password)
# - settings that no plug-in here declares, if they are named like a secret
#
# If the connector's class is unknown here, every setting that it alone would declare is hidden: any of them may be
# secret.


HIDDEN = "[hidden]"
_OF_EVERY_CONNECTOR = ("name", "connector.class", "tasks.max", "topics", "topics.regex")


@dataclass(frozen=True, slots=True)
class DeclaredSettings:
    """The declared settings of a connector: name -> whether it holds a secret.

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
    """Return the hidden settings whose values differ. Both maps include their secrets."""
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


@dataclass(frozen=True, slots=True)
class SettingChange:
    """One setting of two configurations; None: it is not there."""

    setting: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class Rollback:
    """The configuration that a rollback writes.

    Attributes:
        config: with the present values of hidden settings put in.
        kept: settings whose present value stays, because the history does not hold the old one.
        missing: settings that cannot be restored: hidden in the history, and absent now. Not empty: reject.
    """

    config: Mapping[str, str]
    kept: tuple[str, ...] = ()
    missing: tuple[str, ...] = field(default=())


def config_diff(
    before: Mapping[str, str] | None, after: Mapping[str, str] | None, unseen: Collection[str] = ()
) -> list[SettingChange]:
    """Return the differences by setting; ``unseen``: hidden settings that differ although both sides look alike."""
    old, new = before or {}, after or {}
    names = sorted({*old, *new})
    return [
        SettingChange(name, old.get(name), new.get(name))
        for name in names
        if old.get(name) != new.get(name) or name in unseen
    ]


def rolled_back(wanted: Mapping[str, str], present: Mapping[str, str] | None, given: Mapping[str, str]) -> Rollback:
    """Return the configuration to write for an old one.

    Args:
        wanted: as the history has it, secrets hidden.
        present: as it is configured now, secrets included; None: the connector is gone.
        given: values the request itself brings for hidden settings.
    """
    config, kept, missing = dict(wanted), [], []
    for name in sorted(name for name, value in wanted.items() if value == HIDDEN):
        if name in given:
            config[name] = given[name]
        elif present is not None and name in present:
            config[name] = present[name]
            kept.append(name)
        else:
            missing.append(name)
    return Rollback(config, tuple(kept), tuple(missing))
