"""Converts declarations and validation results of Java plug-ins to ours: ``ConfigKeyInfo``, ``ConfigValue``. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from spark_connect_rt.config.config_def import (
    REQUIRED,
    ConfigDef,
    ConfigKey,
    ConfigValue,
    Importance,
    Password,
    Type,
    text_of,
)
from spark_connect_rt.config.validators import Sentence, anything

Complaint = Callable[[str, str | None], str | None]
"""From a setting and its text to what Java's check says against it, in Java's whole sentence."""


def declared(keys: Iterable[Mapping[str, Any]], complaint: Complaint | None = None) -> ConfigDef:
    """Return the settings of a plug-in from the fields of Java's ``ConfigKeyInfo``; defaults are Java's text.

    ``complaint``: asks Java's own checks; None: they are asked otherwise (a connector's validation), or not at all.
    """
    return ConfigDef(_key(key, complaint) for key in keys)


def _key(declaration: Mapping[str, Any], complaint: Complaint | None) -> ConfigKey:
    return ConfigKey(
        name=declaration["name"],
        type=Type(declaration["type"]),
        default=REQUIRED if declaration["required"] else declaration["default_value"],
        importance=Importance(declaration["importance"]),
        doc=declaration["documentation"],
        group=declaration["group"],
        order=declaration["order"],
        width=declaration["width"],
        display_name=declaration["display_name"],
        dependents=tuple(declaration["dependents"]),
        check=anything
        if complaint is None or not declaration.get("checked")
        else _JavaCheck(declaration["name"], complaint),
    )


@dataclass(frozen=True, slots=True)
class _JavaCheck:
    """A check of Java's, asked when it is needed."""

    name: str
    complaint: Complaint

    def __call__(self, value: Any) -> str | None:
        said = self.complaint(self.name, value.value if isinstance(value, Password) else text_of(value))
        return None if said is None else Sentence(said)


def found(values: Iterable[Mapping[str, Any]]) -> list[ConfigValue]:
    """Return what a validation found, from the fields of Java's ``ConfigValueInfo``; values are Java's text."""
    return [
        ConfigValue(
            value["name"],
            value["value"],
            tuple(value["errors"]),
            tuple(value["recommended_values"]),
            bool(value["visible"]),
        )
        for value in values
    ]
