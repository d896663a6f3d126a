"""The words of a migration report: verdicts, lines, connectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

JAVA, PYTHON = "java", "python"


class Fate(Enum):
    """What becomes of one line, from nothing at all to something a person has to do first."""

    SAME = "same"
    DIFFERS = "differs"  # it works, not exactly as in Java: the sentence says how
    IGNORED = "ignored"  # it has no effect here
    CHANGE = "change"  # must be changed before the move


@dataclass(frozen=True, slots=True)
class Line:
    """One setting or fact and its verdict; ``value`` is what may be shown of it."""

    name: str
    value: str
    fate: Fate
    why: str = ""


@dataclass(frozen=True, slots=True)
class Found:
    """A plug-in as this worker would find it."""

    name: str  # the class, as REST shows it
    runtime: str  # "python" or "java"
    version: str | None = None
    location: str = ""
    twin: bool = False  # bundled in Python under a Java class's name
    problem: str = ""  # why it cannot be used; empty: it can be


class Catalog(Protocol):
    """Where classes are looked up."""

    def find(self, name: str, version: str | None = None, runtime: str = "auto") -> Found | None:
        """Return the plug-in of that class or alias; ``runtime``: java or python, only that one; None: no such."""

    def unread(self, name: str, config: Sequence[str]) -> Sequence[str]:
        """Return which of these settings the Python connector ``name`` does not declare; Java's: none."""


@dataclass(frozen=True, slots=True)
class Element:
    """A converter, transformation or predicate of a connector and where it runs."""

    setting: str  # value.converter, transforms.x.type
    name: str
    runtime: str  # "python", "java"; "": it was not found


@dataclass(frozen=True, slots=True)
class ConnectorVerdict:
    """What becomes of one connector."""

    name: str
    class_name: str
    runtime: str  # "python", "java"; "": no class was found
    kind: str  # "python", "java" or "mixed": the chain; "": not known
    state: str  # STARTED, PAUSED, STOPPED
    tasks: int
    elements: Sequence[Element] = ()
    lines: Sequence[Line] = ()


@dataclass(frozen=True, slots=True)
class MigrationReport:
    """Everything there is to say; ``topics``: what the internal topics and the group say."""

    worker: Sequence[Line]
    topics: Sequence[Line]
    connectors: Sequence[ConnectorVerdict]
    there: Sequence[str]
    back: Sequence[str]

    def lines(self) -> list[Line]:
        """Return every line, the connectors' named after them."""
        of_connectors = [line for connector in self.connectors for line in connector.lines]
        return [*self.worker, *self.topics, *of_connectors]

    def must_change(self) -> bool:
        """Return whether something must be changed before the move."""
        return any(line.fate is Fate.CHANGE for line in self.lines())
