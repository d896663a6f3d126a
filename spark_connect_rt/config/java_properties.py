"""Java ``.properties`` text -> settings. Owns the syntax; knows no setting.

Source: the grammar that ``java.util.Properties.load`` documents (logical lines, ``=``, ``:`` or blank as
separator, ``\\uXXXX``). Files are read as UTF-8 and, when they are not, as ISO-8859-1 as Java does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from spark_connect_rt.errors import BadConfigError

_BLANK = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|u|.)", re.DOTALL)


class Properties(dict[str, str]):
    """Settings in file order. ``repeated``: a sentence about each name that occurs more than once."""

    repeated: tuple[str, ...] = ()


def parse_properties(text: str) -> Properties:
    """Return the settings in file order; a later line wins over an earlier one of the same name.

    Java loses the earlier one without a word; here ``repeated`` names both, for who read the file to warn.

    Raises:
        BadConfigError: a ``\\u`` is not followed by four hexadecimal digits; names the line.
    """
    settings = Properties()
    lines: dict[str, list[int]] = {}
    problems: dict[str, list[str]] = {}
    for number, line in _logical_lines(text):
        key, value = _split(line)
        try:
            name = _unescape(key)
            settings[name] = _unescape(value)
            lines.setdefault(name, []).append(number)
        except ValueError as error:
            problems[f"line {number}"] = [str(error)]
    if problems:
        raise BadConfigError(problems)
    settings.repeated = tuple(
        f"{name} is set more than once, in lines {', '.join(map(str, at[:-1]))} and {at[-1]}. The last line is "
        "used. Remove the others."
        for name, at in lines.items()
        if len(at) > 1
    )
    return settings


def load_properties(path: str | Path) -> Properties:
    """Read a properties file. Raises BadConfigError naming the file when it cannot be read or parsed."""
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        reason = error.strerror or str(error)
        raise BadConfigError({str(path): [f"the properties file cannot be read: {reason}"]}) from error
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = content.decode("iso-8859-1")
    try:
        return parse_properties(text)
    except BadConfigError as error:
        raise BadConfigError({f"{path} {place}": why for place, why in error.problems.items()}) from error


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield (number of its first natural line, logical line) without comments and blank lines."""
    joined, first = "", 0
    for number, natural in enumerate(re.split(r"\r\n|\r|\n", text), start=1):
        line = natural.lstrip(_BLANK)
        if not first and (not line or line[0] in "#!"):
            continue
        first = first or number
        trailing = len(line) - len(line.rstrip("\\"))
        if trailing % 2:  # an odd number of backslashes: the line continues
            joined += line[:-1]
            continue
        yield first, joined + line
        joined, first = "", 0
    if joined:
        yield first, joined


def _split(line: str) -> tuple[str, str]:
    """Return (key, value), both still escaped."""
    end = 0
    while end < len(line) and line[end] not in "=:" + _BLANK:
        end += 2 if line[end] == "\\" else 1
    value = line[end:].lstrip(_BLANK)
    if value[:1] in ("=", ":"):
        value = value[1:].lstrip(_BLANK)
    return line[:end], value


def _unescape(text: str) -> str:
    """Replace the escapes; a backslash before any other character is dropped."""

    def replace(match: re.Match[str]) -> str:
        escaped = match.group(1)
        if escaped == "u":
            raise ValueError("\\u needs four hexadecimal digits")
        if len(escaped) == 5:
            return chr(int(escaped[1:], 16))
        return _ESCAPES.get(escaped, escaped)

    if "\\" not in text:
        return text
    plain = _ESCAPE.sub(replace, text)
    # Two \\uXXXX of a surrogate pair are one character, as in Java's UTF-16 strings.
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
