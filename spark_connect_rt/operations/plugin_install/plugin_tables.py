"""Tables and pages of a plug-in's settings, as ``GET /connector-plugins/NAME/config`` has them; lines of a search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from spark_connect_rt.operations.plugin_install.search import FoundPlugin


def coordinate_lines(found: Sequence[FoundPlugin]) -> list[str]:
    """Return a line for each: its coordinate, a few words. No table: a coordinate that is folded cannot be copied.

    An install needs a version, so a coordinate without one has ``VERSION`` in its place.
    """
    whole = [
        (plugin.coordinate if plugin.coordinate.count(":") > 1 else f"{plugin.coordinate}:VERSION", plugin.about)
        for plugin in found
    ]
    width = max((len(coordinate) for coordinate, _ in whole), default=0)
    return [f"{coordinate:{width}}  {about}".rstrip() for coordinate, about in whole]


def settings_table(name: str, keys: Sequence[Mapping[str, Any]]) -> None:
    """Print the settings of a plug-in."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=name, title_justify="left", show_lines=False)
    for column in ("setting", "type", "default", "importance", "what it does"):
        table.add_column(column, overflow="fold")
    for key in keys:
        cells = (key["name"], key["type"], _default(key), key["importance"], key["documentation"] or "")
        table.add_row(*map(Text, cells))  # texts of others: no mark-up is read in them
    Console().print(table)


def settings_page(name: str, keys: Sequence[Mapping[str, Any]]) -> str:
    """Return the settings of a plug-in as Markdown: required ones first, then by importance."""
    lines = [f"# {name}", "", "| setting | type | default | importance | what it does |", "|---|---|---|---|---|"]
    order = ("HIGH", "MEDIUM", "LOW")
    for setting in sorted(keys, key=lambda key: (not key["required"], order.index(key["importance"]))):
        cells = (
            f"`{setting['name']}`",
            setting["type"],
            _default(setting),
            setting["importance"],
            setting["documentation"] or "",
        )
        lines.append("| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def _default(key: Mapping[str, Any]) -> str:
    if key["required"]:
        return "required"
    value = key["default_value"]
    return "-" if value is None else str(value)
