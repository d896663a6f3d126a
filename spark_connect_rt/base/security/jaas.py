"""JAAS login files: which login modules an entry names, with which options (JDK ``ConfigFile``). Pure.

``KafkaConnect { org.example.Module required file="users.properties"; };``
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

# Text as Java's ``StreamTokenizer`` splits it, by which Kafka's ``JaasConfig`` reads a login module. Pure.
#
# Words are letters, ``_ $`` and, after the first character, ``-``, digits and dots. ``//``, ``/*`` and even a single
# ``/`` begin a comment. Quoted text ends with its quote or its line, and has the escapes of C.


_BLANK = re.compile(r"[\x00-\x20]+|/\*.*?(?:\*/|\Z)|/[^\r\n]*", re.DOTALL)
_NUMBER = re.compile(r"-?(?:[0-9]+\.?[0-9]*|\.[0-9]+)")
_WORD = re.compile(r"[A-Za-z_$\xa0-\U0010ffff][A-Za-z0-9_$.\xa0-\U0010ffff-]*")
_QUOTED = re.compile(r"(?P<quote>[\"'])(?P<text>(?:\\.|(?!(?P=quote))[^\\\r\n])*)(?P<end>(?P=quote))?", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:([0-3][0-7]{0,2}|[4-7][0-7]?)|(.))", re.DOTALL)
_LETTERS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


@dataclass(frozen=True, slots=True)
class JaasToken:
    """A piece of text. ``text`` None: a number or a punctuation mark, not a word; ``shown`` is the source text."""

    text: str | None
    shown: str


def unescaped(quoted: str) -> str:
    r"""Return the text between quotes without its escapes: ``\n`` and the like, up to three octal digits."""
    return _ESCAPE.sub(lambda found: chr(int(found[1], 8)) if found[1] else _LETTERS.get(found[2], found[2]), quoted)


def stream_tokens(text: str) -> Iterator[JaasToken]:
    """Yield the tokens of a text in order."""
    at = 0
    while at < len(text):
        if blank := _BLANK.match(text, at):
            at = blank.end()
        elif quoted := _QUOTED.match(text, at):
            yield JaasToken(unescaped(quoted["text"]), quoted.group())
            at = quoted.end()
        elif number := _NUMBER.match(text, at):
            yield JaasToken(None, number.group())
            at = number.end()
        elif word := _WORD.match(text, at):
            yield JaasToken(word.group(), word.group())
            at = word.end()
        else:
            yield JaasToken(None, text[at])
            at += 1


_TOKEN = re.compile(
    r"""\s+|//[^\n]*|\#[^\n]*|/\*.*?\*/      # blank, comments
    |"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'  # in quotes
    |([{};=])|([^\s{};="']+)              # marks, words
    """,
    re.DOTALL | re.VERBOSE,
)
FLAGS = ("required", "requisite", "sufficient", "optional")


@dataclass(frozen=True, slots=True)
class LoginModule:
    """One module of an entry; ``flag`` in lower case."""

    name: str
    flag: str
    options: Mapping[str, str]


def parse_jaas(text: str) -> dict[str, list[LoginModule]]:
    """Return entry -> modules. Raises ValueError with the reason."""
    tokens = _tokens(text)
    entries: dict[str, list[LoginModule]] = {}
    at = 0
    while at < len(tokens):
        name = tokens[at]
        at = _expect(tokens, at + 1, "{")
        modules: list[LoginModule] = []
        while at < len(tokens) and tokens[at] != "}":
            module, at = _module(tokens, at)
            modules.append(module)
        at = _expect(tokens, at, "}")
        at = _expect(tokens, at, ";")
        entries[name] = modules
    return entries


def _module(tokens: list[str], at: int) -> tuple[LoginModule, int]:
    name, flag = tokens[at], tokens[at + 1].lower() if at + 1 < len(tokens) else ""
    if flag not in FLAGS:
        raise ValueError(f"unexpected {flag!r} after {name}. Use one of {', '.join(FLAGS)}")
    at += 2
    options: dict[str, str] = {}
    while at < len(tokens) and tokens[at] != ";":
        option = tokens[at]
        at = _expect(tokens, at + 1, "=")
        if at >= len(tokens):
            raise ValueError(f"option {option} of {name} has no value")
        options[option] = tokens[at]
        at += 1
    return LoginModule(name, flag, options), _expect(tokens, at, ";")


def _expect(tokens: list[str], at: int, wanted: str) -> int:
    if at >= len(tokens) or tokens[at] != wanted:
        found = tokens[at] if at < len(tokens) else "the end"
        raise ValueError(f"expected {wanted!r}, found {found!r}")
    return at + 1


def _tokens(text: str) -> list[str]:
    found: list[str] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise ValueError(f"syntax error at {text[at : at + 20]!r}")
        at = match.end()
        quoted = match.group(1) if match.group(1) is not None else match.group(2)
        if quoted is not None:
            found.append(unescaped(quoted))
        elif match.group(3) or match.group(4):
            found.append(match.group(3) or match.group(4))
    return found
