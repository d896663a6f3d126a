"""What an edit changes in a configuration, as people may see it: secrets are named, their values are not. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from spark_connect_rt.base.hidden_values import HIDDEN
from spark_connect_rt.config.indirection import references
from spark_connect_rt.console.config_form import is_secret_name


@dataclass(frozen=True, slots=True)
class Change:
    """One setting before and after; None: it is not there. Of a secret that differs, ``secret`` says so."""

    setting: str
    before: str | None
    after: str | None
    secret: bool = False


def changes(before: Mapping[str, str], after: Mapping[str, str], secrets: Collection[str] = ()) -> tuple[Change, ...]:
    """Return the settings that differ, by name.

    Args:
        before: as it is stored, secrets and all.
        after: as it is to be, secrets and all.
        secrets: names of settings whose values nobody sees, besides those whose name says it.
    """
    found = []
    for name in sorted({*before, *after}):
        old, new = before.get(name), after.get(name)
        if old != new:
            secret = name in secrets or is_secret_name(name)
            found.append(Change(name, _shown(old, secret), _shown(new, secret), secret))
    return tuple(found)


def secrets_of(validation: Mapping[str, Any], shown: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of secret settings: those declared as PASSWORD, and those that the worker hides itself.

    Args:
        validation: the answer of a validation; empty: there was none.
        shown: a configuration as the worker shows it.
    """
    declared = {
        str((config.get("definition") or {}).get("name"))
        for config in validation.get("configs") or ()
        if (config.get("definition") or {}).get("type") == "PASSWORD"
    }
    return frozenset(declared | {name for name, value in shown.items() if value == HIDDEN})


def _shown(value: str | None, secret: bool) -> str | None:
    return HIDDEN if value and secret and not references(value) else value
