"""The pages of docs/reference/connectors: an example that a test runs, what a crash costs, and all settings.

The words and the example of a connector are in ``tools/connectors/NAME.md``, its settings come from its ConfigDef.
A part has these sections, in this order; ``Input`` and ``Offsets`` may be missing:

    ## Configuration     a JSON block
    ## Input             what the connector reads: a line "`NAME`:" and a block, once or several times
    ## Records           a JSON line for each record; of a sink ``## Result``, as ``Input``
    ## Offsets           a JSON line for each source partition
    ## After a crash
    ## Read again
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PARTS = Path(__file__).parent / "connectors"
SECTIONS = ("Configuration", "Input", "Records", "Result", "Offsets", "After a crash", "Read again")
_SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
_BLOCK = re.compile(r"^```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NAMED_BLOCK = re.compile(r"^`([^`]+)`:\n\n```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class ConnectorPart:
    """The hand-written part of a page: section -> its text, in the page's order."""

    name: str
    text: str
    sections: dict[str, str]

    @property
    def config(self) -> dict[str, str]:
        """The configuration of the example."""
        found: dict[str, str] = json.loads(self._blocks("Configuration")[0])
        return found

    @property
    def inputs(self) -> dict[str, str]:
        """Name -> content of what the example reads: files, answers of a service, SQL."""
        return dict(_NAMED_BLOCK.findall(self.sections.get("Input", "")))

    @property
    def results(self) -> dict[str, str]:
        """Name -> content of what a sink has written."""
        return dict(_NAMED_BLOCK.findall(self.sections.get("Result", "")))

    @property
    def records(self) -> list[Any]:
        """The records, as ``topic``, ``partition``, ``key`` and ``value``."""
        return [json.loads(line) for text in self._blocks("Records") for line in text.splitlines()]

    @property
    def offsets(self) -> list[Any]:
        """The stored offsets, as ``partition`` and ``offset``."""
        return [json.loads(line) for text in self._blocks("Offsets") for line in text.splitlines()]

    def _blocks(self, section: str) -> list[str]:
        return _BLOCK.findall(self.sections.get(section, ""))


def part_of(name: str) -> ConnectorPart:
    """Return the part of a connector by its name without ``Connector``.

    Raises FileNotFoundError: there is none. ValueError: a section is unknown or out of order.
    """
    text = (PARTS / f"{name}.md").read_text(encoding="utf-8")
    pieces = _SECTION.split(text)
    sections = dict(zip(pieces[1::2], pieces[2::2], strict=True))
    known = [section for section in SECTIONS if section in sections]
    if list(sections) != known:
        raise ValueError(f"{name}: the sections must be some of {', '.join(SECTIONS)}, in this order")
    return ConnectorPart(name, text, sections)


def connector_page(name: str, kind: str, description: str, java_class: str, made_by: str, settings: str) -> str:
    """Return the page of one connector; ``settings`` is the table of its settings."""
    part = part_of(name)
    also = "" if java_class.startswith("spark_connect_rt.") else f", or `{java_class}`"
    run = "`connectrt dev FILE --once` runs the example without a broker.\n" if part.inputs else ""
    others = "[Settings of every connector](../connector_settings.md)"
    return (
        f"# {name}\n\n{made_by}\n\n{description}\n\n"
        f"`connector.class` of this {kind} is `{name}`{also}.\n{run}\n"
        f"{part.text.strip()}\n\n"
        f"## Settings\n\n{settings}\n{others} are `name`, `tasks.max`, converters and others.\n"
    )
