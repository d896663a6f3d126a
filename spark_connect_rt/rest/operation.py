"""What describes one operation of the REST API: the classes that rest/description makes /openapi.json from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Shape = Any
"""A dataclass of the ports or of rest/shapes.py, or a list or dict of these."""


@dataclass(frozen=True, slots=True)
class QueryParameter:
    """A parameter that may be left out; ``repeats``: given more than once, each adds to the others."""

    name: str
    description: str
    schema: Mapping[str, Any]
    repeats: bool = False


@dataclass(frozen=True, slots=True)
class Operation:
    """One method on one path. ``answers``: status -> what it holds (None: nothing); ``refusals``: status -> why."""

    id: str
    answers: Mapping[int, Shape | None]
    refusals: Mapping[int, str] = field(default_factory=dict)
    body: Shape | None = None
    parameters: tuple[QueryParameter, ...] = ()
