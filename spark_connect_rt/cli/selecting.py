"""Which connectors are meant: names, patterns, ``-l state=FAILED,type=sink``. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from spark_connect_rt.errors import BadRequestError, NotFoundError

Row = Mapping[str, Any]
_PATTERN = frozenset("*?[")
_FIELDS: dict[str, Callable[[Row], Iterable[str]]] = {
    "name": lambda row: [row["name"]],
    "type": lambda row: [row.get("type", "")],
    "class": lambda row: [row.get("class", ""), row.get("class", "").rpartition(".")[2]],
    "state": lambda row: [row["state"], row.get("aggregate", "")],
    "aggregate": lambda row: [row.get("aggregate", "")],
    "task": lambda row: {task["state"] for task in row["tasks"]},
    "worker": lambda row: {row["worker_id"], *(task["worker_id"] for task in row["tasks"])},
}


@dataclass(frozen=True, slots=True)
class Term:
    """``field=A|B`` or ``field!=A|B``; values are patterns, upper and lower case alike."""

    field: str
    patterns: tuple[str, ...]
    equal: bool

    def holds(self, row: Row) -> bool:
        """Return whether a row is meant."""
        values = [value.lower() for value in _FIELDS[self.field](row)]
        if self.field == "state" and not self.equal:  # the state that lists show
            values = values[-1:] if values[-1] else values[:1]
        return any(fnmatchcase(value, pattern) for value in values for pattern in self.patterns) is self.equal


def selector(text: str | None) -> tuple[Term, ...]:
    """Return the terms of a selector; all must hold. Raises BadRequestError."""
    terms = []
    for part in filter(None, (text or "").split(",")):
        name, equals, value = part.partition("=")
        negated = name.endswith("!")
        name = name.rstrip("!").strip().lower()
        if not equals or name not in _FIELDS or not value.strip("= "):
            raise BadRequestError(
                f"selector {part!r}: expected FIELD=VALUE or FIELD!=VALUE, where FIELD is one of "
                f"{', '.join(_FIELDS)}. Separate several values with |"
            )
        patterns = tuple(pattern.strip().lower() for pattern in value.lstrip("=").split("|"))
        terms.append(Term(name, patterns, not negated))
    return tuple(terms)


def is_pattern(word: str) -> bool:
    """Return whether a word of the command line is a pattern, not a name."""
    return not _PATTERN.isdisjoint(word)


def chosen_names(words: Sequence[str], there: Sequence[str]) -> list[str]:
    """Return the names that the words mean, each once, in the order of the words.

    A word that is a name means it, even if it looks like a pattern. Raises NotFoundError: a word means nothing.
    """
    chosen: dict[str, None] = {}
    known = set(there)
    for word in words:
        if word in known:
            chosen[word] = None
            continue
        matching = [name for name in there if fnmatchcase(name, word)] if is_pattern(word) else []
        if not matching:
            kind = "no connector matches" if is_pattern(word) else "no connector"
            raise NotFoundError(f"{kind} {word}{_near(word, there)}")
        chosen.update(dict.fromkeys(matching))
    return list(chosen)


def matching_rows(rows: Sequence[Row], words: Sequence[str], terms: Sequence[Term]) -> list[Row]:
    """Return the rows that are meant; no words: every one. Raises NotFoundError."""
    if words:
        by_name = {row["name"]: row for row in rows}
        rows = [by_name[name] for name in chosen_names(words, list(by_name))]
    return [row for row in rows if all(term.holds(row) for term in terms)]


def failed(row: Row) -> bool:
    """Return whether a connector or one of its tasks has failed."""
    return row["state"] == "FAILED" or any(task["state"] == "FAILED" for task in row["tasks"])


def _near(word: str, there: Sequence[str]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(word, there, n=3)
    return f"; did you mean {', '.join(near)}?" if near else ""
