"""Java regular expressions in Python (``topics.regex`` and the like), matched against whole names.

Owns: the few spellings that differ. Pure. An expression that Python cannot express is rejected, never approximated.
"""

from __future__ import annotations

import re

_NAMED_GROUP = re.compile(r"\(\?<([A-Za-z][A-Za-z0-9]*)>")
_QUOTED = re.compile(r"\\Q(.*?)(?:\\E|\Z)", re.DOTALL)
_CLASSES = {
    "Lower": "a-z",
    "Upper": "A-Z",
    "Alpha": "a-zA-Z",
    "Digit": "0-9",
    "Alnum": "a-zA-Z0-9",
    "Punct": r"!-/:-@\[-`{-~",
    "XDigit": "0-9a-fA-F",
    "Space": r"\s",
}
_NESTED_CLASS = re.compile(r"(?<!\\)(?:\\\\)*\[\^?\]?(?:\\.|[^\]\\\[])*?(?:\[|&&)")  # [a[b]] and [a&&b]
_POSIX = re.compile(r"\\p\{(\w+)\}|\\P\{(\w+)\}")


def java_pattern(text: str) -> re.Pattern[str]:
    """Return the pattern for use with ``fullmatch``. Raises ValueError with the reason."""
    translated = _QUOTED.sub(lambda match: re.escape(match.group(1)), text)
    translated = _NAMED_GROUP.sub(r"(?P<\1>", translated).replace(r"\z", r"\Z").replace(r"\h", r"[ \t]")
    translated = _with_classes(translated)
    if _NESTED_CLASS.search(translated):
        raise ValueError(f"{text!r}: nested classes and && are not supported")
    try:
        return re.compile(translated, re.ASCII)
    except re.error as error:
        raise ValueError(f"{text!r} is not a regular expression: {error}") from error


def _with_classes(text: str) -> str:
    """Replace ``\\p{Alpha}`` by what it stands for, inside and outside of brackets."""
    pieces, depth, last = [], 0, 0
    for match in _POSIX.finditer(text):
        name = match.group(1) or match.group(2)
        if name not in _CLASSES:
            raise ValueError(f"{text!r}: the class \\p{{{name}}} is not supported")
        depth += _brackets(text[last : match.start()])
        pieces.append(text[last : match.start()])
        if match.group(2) and depth:
            raise ValueError(f"{text!r}: \\P{{{name}}} inside brackets is not supported")
        inside = _CLASSES[name]
        pieces.append(inside if depth else f"[{'^' if match.group(2) else ''}{inside}]")
        last = match.end()
    return "".join([*pieces, text[last:]])


def _brackets(text: str) -> int:
    """Return how many brackets ``text`` opens and leaves open."""
    bare = re.sub(r"\\.", "", text)
    return bare.count("[") - bare.count("]")
