"""Differences between two configurations, or between two sets of offsets, and their display. Pure.

A setting that looks like a secret, by its name or its value, is shown as changed, never with its value. A reference
to a config provider is not hidden.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spark_connect_rt.base.hidden_values import HIDDEN
from spark_connect_rt.config.secrets import is_reference, named_like_secret, surely_secret


@dataclass(frozen=True, slots=True)
class SettingDifference:
    """One setting (or source partition); None: it is not there on that side."""

    name: str
    before: str | None
    after: str | None


def config_differences(before: Mapping[str, str], after: Mapping[str, str]) -> list[SettingDifference]:
    """Return what must be changed in ``before`` to become ``after``, by name."""
    return [
        SettingDifference(name, before.get(name), after.get(name))
        for name in sorted({*before, *after})
        if before.get(name) != after.get(name)
    ]


def offset_differences(
    before: Iterable[Mapping[str, Any]], after: Iterable[Mapping[str, Any]]
) -> list[SettingDifference]:
    """Return which partitions have other offsets; an offset of None is a missing offset."""
    return config_differences(_by_partition(before), _by_partition(after))


def of_answer(changes: Sequence[Mapping[str, Any]]) -> list[SettingDifference]:
    """Return the differences of the management API's ``[{"setting", "before", "after"}]``."""
    return [
        SettingDifference(change["setting"], _text(change.get("before")), _text(change.get("after")))
        for change in changes
    ]


def difference_lines(differences: Iterable[SettingDifference], hide: bool = True) -> list[tuple[str, str]]:
    """Return (line, style) in the manner of diff: removed values, then added ones."""
    lines = []
    for difference in differences:
        if difference.before is not None:
            lines.append((f"- {difference.name} = {_shown(difference.name, difference.before, hide)}", "red"))
        if difference.after is not None:
            lines.append((f"+ {difference.name} = {_shown(difference.name, difference.after, hide)}", "green"))
    return lines


def shown_config(config: Mapping[str, str]) -> dict[str, str]:
    """Return a configuration without its secrets."""
    return {name: _shown(name, value, True) for name, value in config.items()}


def _shown(name: str, value: str, hide: bool) -> str:
    if not hide or not value or is_reference(value):
        return value
    return HIDDEN if named_like_secret(name) or surely_secret(name, value) else value


def _by_partition(offsets: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    return {
        json.dumps(offset.get("partition"), sort_keys=True, ensure_ascii=False): json.dumps(
            offset["offset"], sort_keys=True, ensure_ascii=False
        )
        for offset in offsets
        if offset.get("offset") is not None
    }


def _text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value, sort_keys=True)
