"""Text as Java's ``StreamTokenizer`` cuts it: what Kafka's ``JaasConfig`` reads a login module with. Pure.

Words are letters, ``_ $`` and, behind the first one, ``-``, digits and dots. ``//``, ``/*`` and even a single ``/``
begin a comment. Quoted text ends with its quote or its line, and has the escapes of C.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_BLANK = re.compile(r"[\x00-\x20]+|/\*.*?(?:\*/|\Z)|/[^\r\n]*", re.DOTALL)
_NUMBER = re.compile(r"-?(?:[0-9]+\.?[0-9]*|\.[0-9]+)")
_WORD = re.compile(r"[A-Za-z_$\xa0-\U0010ffff][A-Za-z0-9_$.\xa0-\U0010ffff-]*")
_QUOTED = re.compile(r"(?P<quote>[\"'])(?P<text>(?:\\.|(?!(?P=quote))[^\\\r\n])*)(?P<end>(?P=quote))?", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:([0-3][0-7]{0,2}|[4-7][0-7]?)|(.))", re.DOTALL)
_LETTERS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of text. ``text`` None: a number or a mark, which is no word; ``shown`` is what stands there."""

    text: str | None
    shown: str


def unescaped(quoted: str) -> str:
    r"""Return what stands between quotes without its escapes: ``\n`` and the like, up to three octal digits."""
    return _ESCAPE.sub(lambda found: chr(int(found[1], 8)) if found[1] else _LETTERS.get(found[2], found[2]), quoted)


def stream_tokens(text: str) -> Iterator[Token]:
    """Yield the tokens of a text in order."""
    at = 0
    while at < len(text):
        if blank := _BLANK.match(text, at):
            at = blank.end()
        elif quoted := _QUOTED.match(text, at):
            yield Token(unescaped(quoted["text"]), quoted.group())
            at = quoted.end()
        elif number := _NUMBER.match(text, at):
            yield Token(None, number.group())
            at = number.end()
        elif word := _WORD.match(text, at):
            yield Token(word.group(), word.group())
            at = word.end()
        else:
            yield Token(None, text[at])
            at += 1
