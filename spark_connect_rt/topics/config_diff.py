"""What differs between two configurations, and which configuration a rollback writes. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from spark_connect_rt.topics.hidden_settings import HIDDEN


@dataclass(frozen=True, slots=True)
class SettingChange:
    """One setting of two configurations; None: it is not there."""

    setting: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class Rollback:
    """What a rollback writes.

    Attributes:
        config: with the present values of hidden settings put in.
        kept: settings whose present value stays, because the history does not hold the one of then.
        missing: settings that cannot be restored: hidden then, and now not there. Not empty: refuse.
    """

    config: Mapping[str, str]
    kept: tuple[str, ...] = ()
    missing: tuple[str, ...] = field(default=())


def config_diff(
    before: Mapping[str, str] | None, after: Mapping[str, str] | None, unseen: Collection[str] = ()
) -> list[SettingChange]:
    """Return what differs, by setting; ``unseen``: hidden settings that differ although both sides look alike."""
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
