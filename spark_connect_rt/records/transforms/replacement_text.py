"""The replacement of a Java regular expression: ``$1``, ``${name}``, and a backslash before what stands for itself."""

from __future__ import annotations

import re

from spark_connect_rt.errors import DataError

Piece = str | int
"""Text as it is, or the number of a group."""


def replacement_pieces(pattern: re.Pattern[str], text: str) -> tuple[Piece, ...]:
    """Return the pieces of a replacement. Raises DataError as Java does when it replaces."""
    pieces: list[Piece] = []
    index = 0
    while index < len(text):
        if text[index] == "\\":
            if index + 1 == len(text):
                raise DataError("character to be escaped is missing")
            pieces.append(text[index + 1])
            index += 2
        elif text[index] == "$":
            group, index = _group(pattern, text, index + 1)
            pieces.append(group)
        else:
            pieces.append(text[index])
            index += 1
    return tuple(pieces)


def _group(pattern: re.Pattern[str], text: str, index: int) -> tuple[int, int]:
    if index == len(text):
        raise DataError("Illegal group reference: group index is missing")
    if text[index] == "{":
        found = re.compile(r"\{([A-Za-z0-9]*)(\}?)").match(text, index)
        name = found.group(1) if found else ""
        if not found or not name:
            raise DataError("named capturing group has 0 length name")
        if not found.group(2):
            raise DataError("named capturing group is missing trailing '}'")
        if name[0].isdigit():
            raise DataError(f"capturing group name {{{name}}} starts with digit character")
        if name not in pattern.groupindex:
            raise DataError(f"No group with name {{{name}}}")
        return pattern.groupindex[name], found.end()
    if text[index] not in "0123456789":
        raise DataError("Illegal group reference")
    number, index = int(text[index]), index + 1
    if number > pattern.groups:
        raise DataError(f"No group {number}")
    while index < len(text) and text[index] in "0123456789" and number * 10 + int(text[index]) <= pattern.groups:
        number, index = number * 10 + int(text[index]), index + 1
    return number, index


def replaced_first(pattern: re.Pattern[str], text: str, pieces: tuple[Piece, ...]) -> str:
    """Return ``text`` with what the pattern finds first replaced (Java ``Matcher.replaceFirst``)."""
    found = pattern.search(text)
    if found is None:
        return text
    parts = [piece if isinstance(piece, str) else found.group(piece) or "" for piece in pieces]
    return f"{text[: found.start()]}{''.join(parts)}{text[found.end() :]}"
