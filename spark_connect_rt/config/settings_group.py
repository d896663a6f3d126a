"""A few settings of a worker as one typed value: each field is the setting of its name, ``_`` for the dots.

Types, units, checks and defaults are in the declarations (``ConfigDef``) alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, ClassVar, Self

from spark_connect_rt.config.config_def import LOW, MEDIUM, ConfigDef, ConfigKey, Importance, Type
from spark_connect_rt.config.validators import AtLeast, Check, anything


class SettingsGroup:
    """Base of the frozen dataclasses that hold a group."""

    __slots__ = ()
    definition: ClassVar[ConfigDef]  # where the fields are declared, perhaps among others

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> Self:
        """Parse this group's settings alone. Settings that ``raw`` lacks have their defaults.

        Raises BadConfigError naming every bad one.
        """
        names = cls.settings()
        return cls.taken_from(ConfigDef(key for key in cls.definition if key.name in names).parse(raw))

    @classmethod
    def taken_from(cls, values: Mapping[str, Any]) -> Self:
        """Return the group of typed values: setting -> value. Lists become tuples."""
        taken = {name.replace(".", "_"): values[name] for name in cls.settings()}
        return cls(**{field: tuple(value) if isinstance(value, list) else value for field, value in taken.items()})

    @classmethod
    def settings(cls) -> tuple[str, ...]:
        """Return the names of this group's settings, with dots."""
        return tuple(field.name.replace("_", ".") for field in fields(cls))  # type: ignore[arg-type]

    def overridden(self, texts: Mapping[str, str]) -> Self:
        """Return the group with the values of ``texts``, for example a connector's instead of its worker's.

        A value that cannot be parsed (a reference that is not resolved) counts as missing.
        """
        parsed = ((name, self.definition[name].parse(texts)) for name in self.settings() if name in texts)
        good = {name.replace(".", "_"): value for name, (value, complaints) in parsed if not complaints}
        return replace(self, **good)  # type: ignore[type-var]


# Settings of the kinds that most connectors have, in few words; and the check that text is JSON.


def text(
    name: str,
    doc: str,
    default: Any = None,
    importance: Importance = MEDIUM,
    check: Check = anything,
    *,
    trimmed: bool = True,
) -> ConfigKey:
    """Return a setting that is text; not ``trimmed``, blanks and line ends around it belong to it."""
    return ConfigKey(name, Type.STRING, default, importance, doc, check, trimmed=trimmed)


def number(name: str, doc: str, default: int, least: int, importance: Importance = LOW) -> ConfigKey:
    """Return a setting that is a whole number, ``least`` or more."""
    return ConfigKey(name, Type.LONG, default, importance, doc, AtLeast(least))


def json_object(value: Any) -> str | None:
    """Complain about text that is not a JSON object."""
    if value is None:
        return None
    try:
        found = json.loads(getattr(value, "value", value))
    except ValueError as error:
        return f"is not valid JSON: {error}"
    return None if isinstance(found, dict) else "must be a JSON object"
