"""JAAS login files: which login modules an entry names, with which options (JDK ``ConfigFile``). Pure.

``KafkaConnect { org.example.Module required file="users.properties"; };``
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from spark_connect_rt.base.security.stream_tokens import unescaped

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
    """Return entry -> modules. Raises ValueError saying what is wrong."""
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
