"""Compares texts with the rules: patterns by regular expression, limits by a function each. Pure."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.prose.texts import TASK_PAGES, Page, Text

RULES = Path(__file__).with_name("rules.toml")
EVERYWHERE = ("page", "heading", "cell", "template", "message", "docstring", "comment", "test name")
_SENTENCES = ("page", "cell", "message", "docstring", "comment", "template")
_END = re.compile(
    r"(?<![A-Z]\.[A-Z])(?<!\be\.g)(?<!\bi\.e)(?<!\bvs)[.!?:]['\")\]*_]*\s+(?=[\"'(\[*_]*[A-Z0-9])|\n\s*\n|\n\s*[-*] "
)


@dataclass(frozen=True)
class Rule:
    """One entry of ``rules.toml``."""

    name: str
    why: str
    fix: str
    pattern: re.Pattern[str] | None
    limit: int
    kinds: frozenset[str]
    bad: str
    good: str


@dataclass(frozen=True, order=True)
class Violation:
    """A place that breaks a rule, and the words that do."""

    file: str
    line: int
    rule: str
    words: str


def rules(source: Path = RULES) -> dict[str, Rule]:
    """Return all rules by name, as ``rules.toml`` has them."""
    table = tomllib.loads(source.read_text(encoding="utf-8"))
    return {
        name: Rule(
            name,
            row["why"],
            row["fix"],
            re.compile(row["pattern"]) if "pattern" in row else None,
            row.get("limit", 0),
            frozenset(row.get("in", EVERYWHERE)),
            row.get("bad", ""),
            row.get("good", ""),
        )
        for name, row in table.items()
    }


def violations(table: dict[str, Rule], pages: Iterable[Page], texts: Iterable[Text]) -> list[Violation]:
    """Return every place that breaks a rule, sorted by file and line."""
    found: list[Violation] = []
    for page in pages:
        found += [hit for measure in _OF_PAGES for hit in measure(table, page)]
        found += [hit for text in page.texts for hit in of_text(table, text)]
    found += [hit for text in texts for hit in of_text(table, text)]
    return sorted(found)


def of_text(table: dict[str, Rule], text: Text) -> Iterator[Violation]:
    """Yield the places of one text that break a pattern or a limit of texts."""
    lower = text.text.lower()  # a third faster than re.IGNORECASE
    if text.kind != "code":
        lower = lower.replace("\n", " ")
    for name, rule in table.items():
        if rule.pattern and text.kind in rule.kinds:
            for hit in rule.pattern.finditer(lower):
                yield Violation(text.file, text.line(hit.start()), name, " ".join(hit.group().split()))
    if text.kind == "code":
        return
    for measure in _OF_TEXTS:
        yield from measure(table, text)


def _sentences(text: str) -> Iterator[tuple[int, str]]:
    """Yield each sentence of a text and where it begins. A colon ends one where a capital or a list follows."""
    begin = 0
    for end in _END.finditer(text):
        yield begin, text[begin : end.start() + 1]
        begin = end.end()
    yield begin, text[begin:]


def _words(text: str) -> list[str]:
    return [word for word in text.split() if any(character.isalnum() for character in word)]


def _long_sentences(table: dict[str, Rule], text: Text) -> Iterator[Violation]:
    rule = table["long-sentence"]
    if text.kind in _SENTENCES and len(text.text) > 2 * rule.limit:  # a word and its space have two characters
        for begin, sentence in _sentences(text.text):
            if len(words := _words(sentence)) > rule.limit:
                yield Violation(text.file, text.line(begin), rule.name, f"{len(words)} words: {_start(words)}")


def _semicolon_chains(table: dict[str, Rule], text: Text) -> Iterator[Violation]:
    rule = table["semicolon-chain"]
    if text.kind in _SENTENCES and text.text.count(";") > rule.limit:
        for begin, sentence in _sentences(text.text):
            if (count := sentence.count("; ") + sentence.count(";\n")) > rule.limit:
                yield Violation(text.file, text.line(begin), rule.name, f"{count}: {_start(_words(sentence))}")


def _short_docstrings(table: dict[str, Rule], text: Text) -> Iterator[Violation]:
    rule = table["short-docstring"]
    if text.kind == "docstring" and len(_words(text.text)) < rule.limit:
        yield Violation(text.file, text.line(0), rule.name, " ".join(text.text.split()))


def _long_test_names(table: dict[str, Rule], text: Text) -> Iterator[Violation]:
    rule = table["long-test-name"]
    if text.kind == "test name" and (length := len(text.text) + len("test_")) > rule.limit:
        yield Violation(text.file, text.line(0), rule.name, f"{length} characters")


def _asides(table: dict[str, Rule], text: Text) -> Iterator[Violation]:
    rule = table["aside"]
    if text.kind in _SENTENCES and "(" in text.text:
        for aside in re.finditer(r"\(([^()]+)\)", text.text):
            if len(words := _words(aside[1])) > rule.limit:
                yield Violation(text.file, text.line(aside.start()), rule.name, f"{len(words)} words: {_start(words)}")


def _long_paragraphs(table: dict[str, Rule], page: Page) -> Iterator[Violation]:
    rule = table["long-paragraph"]
    for text in page.texts:
        if text.kind == "page" and len(words := _words(text.text)) > rule.limit:
            yield Violation(page.file, text.line(0), rule.name, f"{len(words)} words: {_start(words)}")


def _long_lines(table: dict[str, Rule], page: Page) -> Iterator[Violation]:
    rule = table["long-line"]
    for number in sorted(page.prose_lines):
        line = page.source[number].strip() if number < len(page.source) else ""
        if len(line) > rule.limit and len(list(_sentences(line))) > 1:
            yield Violation(page.file, number + 1, rule.name, f"{len(line)} characters")


def _semicolons(table: dict[str, Rule], page: Page) -> Iterator[Violation]:
    rule = table["semicolons"]
    prose = [text for text in page.texts if text.kind == "page"]
    allowed = -(-sum(len(_words(text.text)) for text in prose) * rule.limit // 1000)
    places = [text.line(found.start()) for text in prose for found in re.finditer(";", text.text)]
    for place in places[allowed:]:
        yield Violation(page.file, place, rule.name, f"{len(places)} on this page, at most {allowed}")


def _few_code_blocks(table: dict[str, Rule], page: Page) -> Iterator[Violation]:
    rule = table["few-code-blocks"]
    if page.file.startswith(TASK_PAGES):
        wanted = sum(len(_words(text.text)) for text in page.texts) * rule.limit // 1000
        for _ in range(wanted - page.code_blocks):
            yield Violation(page.file, 1, rule.name, f"{page.code_blocks} on this page, at least {wanted}")


def _start(words: list[str]) -> str:
    return " ".join(words[:6]) + (" ..." if len(words) > 6 else "")


_OF_TEXTS: tuple[Callable[[dict[str, Rule], Text], Iterator[Violation]], ...] = (
    _long_sentences,
    _semicolon_chains,
    _short_docstrings,
    _long_test_names,
    _asides,
)
_OF_PAGES: tuple[Callable[[dict[str, Rule], Page], Iterator[Violation]], ...] = (
    _long_paragraphs,
    _long_lines,
    _semicolons,
    _few_code_blocks,
)
