"""Tables and pages of a plug-in's settings, as ``GET /connector-plugins/NAME/config`` answers them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def table_of(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left", show_lines=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))  # texts of others: no mark-up is read in them
    Console().print(table)


def settings_table(name: str, keys: Sequence[Mapping[str, Any]]) -> None:
    """Print the settings of a plug-in."""
    rows = [(one["name"], one["type"], _default(one), one["importance"], one["documentation"] or "") for one in keys]
    table_of(name, ("setting", "type", "default", "importance", "what it does"), rows)


def settings_page(name: str, keys: Sequence[Mapping[str, Any]]) -> str:
    """Return the settings of a plug-in as Markdown: required ones first, then by importance."""
    lines = [f"# {name}", "", "| setting | type | default | importance | what it does |", "|---|---|---|---|---|"]
    order = ("HIGH", "MEDIUM", "LOW")
    for one in sorted(keys, key=lambda key: (not key["required"], order.index(key["importance"]))):
        cells = (f"`{one['name']}`", one["type"], _default(one), one["importance"], one["documentation"] or "")
        lines.append("| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def _default(key: Mapping[str, Any]) -> str:
    if key["required"]:
        return "required"
    value = key["default_value"]
    return "-" if value is None else str(value)
