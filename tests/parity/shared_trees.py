"""Keeps recordings small: a JSON tree that occurs often stands once in a table, ``{"@": place}`` elsewhere."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

MARK = "@"
_SHORTEST = 40


def pack(tree: Any) -> tuple[list[Any], Any]:
    """Return (table, tree) with every repeated tree in the table; those in the table refer to earlier ones."""
    counts: Counter[str] = Counter()
    _count(tree, counts)
    table: list[Any] = []
    places: dict[str, int] = {}
    return table, _packed(tree, counts, table, places)


def _text(tree: Any) -> str:
    return json.dumps(tree, separators=(",", ":"))


def _parts(tree: Any) -> list[Any]:
    return list(tree.values()) if isinstance(tree, dict) else tree if isinstance(tree, list) else []


def _count(tree: Any, counts: Counter[str]) -> None:
    if not _parts(tree):
        return
    text = _text(tree)
    counts[text] += 1
    if counts[text] == 1:  # its parts are counted once: in the table they stand once
        for part in _parts(tree):
            _count(part, counts)


def _packed(tree: Any, counts: Counter[str], table: list[Any], places: dict[str, int]) -> Any:
    if not _parts(tree):
        return tree
    text = _text(tree)
    if text in places:
        return {MARK: places[text]}
    if isinstance(tree, dict):
        packed: Any = {name: _packed(part, counts, table, places) for name, part in tree.items()}
    else:
        packed = [_packed(part, counts, table, places) for part in tree]
    if counts[text] < 2 or len(_text(packed)) < _SHORTEST:
        return packed
    table.append(packed)
    places[text] = len(table) - 1
    return {MARK: places[text]}


def unpack(table: list[Any], tree: Any) -> Any:
    """Return the tree as it was."""
    whole: list[Any] = []
    for packed in table:
        whole.append(_unpacked(packed, whole))
    return _unpacked(tree, whole)


def _unpacked(tree: Any, whole: list[Any]) -> Any:
    if isinstance(tree, dict):
        if tree.keys() == {MARK}:
            return whole[tree[MARK]]
        return {name: _unpacked(part, whole) for name, part in tree.items()}
    return [_unpacked(part, whole) for part in tree] if isinstance(tree, list) else tree
