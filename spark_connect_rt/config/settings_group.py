"""A few settings of a worker as one typed value: each field is the setting of its name, ``_`` for the dots.

Types, units, checks and defaults stand in the declarations (``ConfigDef``) alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, ClassVar, Self

from spark_connect_rt.config.config_def import ConfigDef


class SettingsGroup:
    """Base of the frozen dataclasses that hold a group."""

    __slots__ = ()
    definition: ClassVar[ConfigDef]  # where the fields are declared, perhaps among others

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> Self:
        """Parse this group's settings alone; what ``raw`` does not say is the default.

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
        """Return the settings' names."""
        return tuple(field.name.replace("_", ".") for field in fields(cls))  # type: ignore[arg-type]

    def overridden(self, texts: Mapping[str, str]) -> Self:
        """Return the group with what ``texts`` say instead, as a connector's do of its worker's settings.

        A value that cannot be read as it stands (a reference that no one could look up) counts as not given.
        """
        parsed = ((name, self.definition[name].parse(texts)) for name in self.settings() if name in texts)
        good = {name.replace(".", "_"): value for name, (value, complaints) in parsed if not complaints}
        return replace(self, **good)  # type: ignore[type-var]
