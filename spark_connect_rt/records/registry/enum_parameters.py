"""Enums as Connect has them: strings whose schema holds a parameter for each symbol, ``<marker>.<symbol>``."""

from __future__ import annotations

from spark_connect_rt.api.data.schema import Schema


def enum_members(schema: Schema, marker: str) -> list[tuple[str, str]]:
    """Return (symbol, the parameter's text) in their order."""
    prefix = f"{marker}."
    return [(name.removeprefix(prefix), text) for name, text in schema.parameters if name.startswith(prefix)]
