"""How a dataclass of the ports is shown as JSON: said once, beside its fields.

Owns: the metadata of fields. The keys are pydantic's names for the same (``alias``, ``description``, ``exclude_if``,
``json_schema_extra``), so that it makes the JSON Schema from the class; rest/json_values.py writes the JSON by them.
Nothing here imports pydantic: a worker's start does not pay for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar


class JsonShape:
    """An object with the fields of the dataclass and no others, each always there unless it is ``left_out``."""

    __slots__ = ()
    __pydantic_config__: ClassVar[Mapping[str, Any]] = {
        "extra": "forbid",
        "json_schema_serialization_defaults_required": True,
    }


def described(description: str, **schema: Any) -> dict[str, Any]:
    """Return the metadata of a field with a description for its readers; ``schema`` adds to its JSON Schema."""
    return {"description": description, "json_schema_extra": schema}


def one_of(values: Iterable[str], description: str = "") -> dict[str, Any]:
    """Return the metadata of a field whose text is one of these."""
    return {"json_schema_extra": {"enum": list(values)}} | (described(description) if description else {})


def renamed(alias: str, description: str) -> dict[str, Any]:
    """Return the metadata of a field with another name in JSON."""
    return {"alias": alias, "description": description}


def left_out(description: str, **schema: Any) -> dict[str, Any]:
    """Return the metadata of a field that JSON has only when it holds something; it is never null there."""

    def never_null(found: dict[str, Any]) -> None:
        found.pop("default", None)
        (shape,) = (alternative for alternative in found.pop("anyOf") if alternative.get("type") != "null")
        found.update(shape | schema)

    return {"description": description, "exclude_if": _is_empty, "json_schema_extra": never_null}


def _is_empty(value: object) -> bool:
    return not value
