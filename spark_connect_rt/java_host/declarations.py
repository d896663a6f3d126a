"""What Java plug-ins declare, and what their validation finds, as ours: ``ConfigKeyInfo``, ``ConfigValue``. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from spark_connect_rt.config.config_def import REQUIRED, ConfigDef, ConfigKey, ConfigValue, Importance, Type


def declared(keys: Iterable[Mapping[str, Any]]) -> ConfigDef:
    """Return the settings of a plug-in from the fields of Java's ``ConfigKeyInfo``; defaults are Java's text.

    Checks are Java's alone: its validation is asked.
    """
    return ConfigDef(_key(one) for one in keys)


def _key(one: Mapping[str, Any]) -> ConfigKey:
    return ConfigKey(
        name=one["name"],
        type=Type(one["type"]),
        default=REQUIRED if one["required"] else one["default_value"],
        importance=Importance(one["importance"]),
        doc=one["documentation"],
        group=one["group"],
        order=one["order"],
        width=one["width"],
        display_name=one["display_name"],
        dependents=tuple(one["dependents"]),
    )


def found(values: Iterable[Mapping[str, Any]]) -> list[ConfigValue]:
    """Return what a validation found, from the fields of Java's ``ConfigValueInfo``; values are Java's text."""
    return [
        ConfigValue(
            one["name"], one["value"], tuple(one["errors"]), tuple(one["recommended_values"]), bool(one["visible"])
        )
        for one in values
    ]
