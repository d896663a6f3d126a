"""The baseline: how often each file breaks each rule today. Counts may only fall. Pure but for reading and writing it.

A file may hold what a file that is no longer there held, so modules can be moved and merged without new wording.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from tools.prose.measures import Violation

BASELINE = Path(__file__).with_name("baseline.txt")
Counts = Counter[tuple[str, str]]  # (file, rule) -> how often


def counts(found: Iterable[Violation]) -> Counts:
    """Return how often each file breaks each rule."""
    return Counter((hit.file, hit.rule) for hit in found)


def read(text: str) -> Counts:
    """Return the counts of a baseline: folders with a slash at the end, below each ``file rule=count rule=count``."""
    found: Counts = Counter()
    folder = ""
    for line in text.splitlines():
        name, *cells = line.split()
        if name.endswith("/"):
            folder = "" if name == "./" else name
        for cell in cells:
            rule, _, count = cell.partition("=")
            found[folder + name, rule] = int(count)
    return found


def written(found: Mapping[tuple[str, str], int]) -> str:
    """Return the text of a baseline, sorted by folder, file and rule, without zeros."""
    folders: dict[str, dict[str, list[str]]] = {}
    for (file, rule), count in sorted(found.items()):
        if count:
            folder, _, name = file.rpartition("/")
            folders.setdefault(f"{folder or '.'}/", {}).setdefault(name, []).append(f"{rule}={count}")
    lines = []
    for folder, files in sorted(folders.items()):
        lines += [folder, *(f"{name} {' '.join(cells)}" for name, cells in files.items())]
    return "".join(f"{line}\n" for line in lines)


def rises(now: Counts, allowed: Counts, files: Iterable[str]) -> list[tuple[str, str]]:
    """Return the (file, rule) pairs whose count rose by more than files that are gone can account for.

    ``files``: all that are there. What files that are gone held of a rule covers the rises of that rule in files of the
    same folder of the repository's root, in the order of their names.
    """
    there = set(files)
    pool: Counter[tuple[str, str]] = Counter()
    for (file, rule), count in allowed.items():
        if file not in there:
            pool[_top(file), rule] += count
    risen = []
    for file, rule in sorted(now):
        rise = now[file, rule] - allowed[file, rule]
        if rise > 0 and rise <= pool[_top(file), rule]:
            pool[_top(file), rule] -= rise
        elif rise > 0:
            risen.append((file, rule))
    return risen


def _top(file: str) -> str:
    return file.partition("/")[0]
