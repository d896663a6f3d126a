"""Finds the texts of this repository that a person reads, each with its kind and the place of each line.

Owns which files count: hand-written Markdown, the package, the names of the tests, the console's templates. It leaves
out pages that a program writes, code blocks, inline code, quoted blocks, and words in quotation marks on a page.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parents[2]
PACKAGES = ("spark_connect_rt", "pyspark_connectrt")
TASK_PAGES = ("docs/tutorial/", "docs/howto/", "README.md")  # pages that show how to do something
KEEP = "prose: keep"  # in a comment on a line of Python, or on the line before: another program's words
_WRITTEN_BY_PROGRAM = "<!-- Made by"
_PROGRAMS_PAGES = ("docs/reference/conformance.md", "bench/notes/")
_PROGRAMS_PART = re.compile(r"<!-- [\w ]+: written by .*?<!-- [\w ]+: end -->", re.DOTALL)
_MARKDOWN = MarkdownIt("commonmark").enable("table")
_PYTHON = re.compile(
    r"(?P<comment>#[^\n]*)"
    r"|(?P<literal>\"\"\"(?:[^\\]|\\.)*?\"\"\"|'''(?:[^\\]|\\.)*?'''"
    r'|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\')',
    re.DOTALL,
)
_CODE = re.compile(r"``[^`]+``|`[^`\n]+`|\bNone\b")
_STAND_IN = "X"  # for code, placeholders and quotations: one word, so that the sentence stays whole


@dataclass(frozen=True)
class Text:
    """One paragraph, heading, cell, string, comment or name. ``lines``: (offset, line number) for each of its lines."""

    kind: str
    file: str
    text: str
    lines: tuple[tuple[int, int], ...]

    def line(self, offset: int) -> int:
        """Return the number of the line that holds the character at ``offset``."""
        return self.lines[bisect_right(self.lines, (offset, 1 << 60)) - 1][1]


@dataclass(frozen=True)
class Page:
    """One hand-written page: its texts, and what is measured of the whole."""

    file: str
    texts: tuple[Text, ...]
    source: tuple[str, ...]
    prose_lines: frozenset[int]
    code_blocks: int


def pages(root: Path = ROOT) -> Iterator[Page]:
    """Yield every hand-written page of the repository in the order of their names."""
    folders = ("docs/**/*.md", "*.md", "examples/**/*.md", ".github/*.md")
    for path in sorted({path for pattern in folders for path in root.glob(pattern)}):
        file, source = str(path.relative_to(root)), path.read_text(encoding="utf-8")
        if _WRITTEN_BY_PROGRAM not in source and not file.startswith(_PROGRAMS_PAGES):
            yield page(file, source)


def page(file: str, source: str) -> Page:
    """Return a Markdown source as a page; parts that a program wrote are blank lines in it."""
    source = _PROGRAMS_PART.sub(lambda part: "\n" * part.group().count("\n"), source)
    tokens = _MARKDOWN.parse(source)
    texts: list[Text] = []
    prose: set[int] = set()
    kind, quoted, line = "page", 0, 1
    for token in tokens:
        line = token.map[0] + 1 if token.map else line
        quoted += (token.type == "blockquote_open") - (token.type == "blockquote_close")
        kind = {"heading_open": "heading", "td_open": "cell", "th_open": "heading"}.get(token.type, kind)
        if token.type in ("heading_close", "td_close", "th_close"):
            kind = "page"
        if token.type == "inline" and not quoted:
            texts.append(_text(kind, file, _shown(token), line))
            if kind == "page" and token.map:
                prose.update(range(token.map[0], token.map[1]))
    code_blocks = sum(token.type in ("fence", "code_block") for token in tokens)
    return Page(file, tuple(texts), tuple(source.splitlines()), frozenset(prose), code_blocks)


def _shown(inline: Token) -> str:
    """Return the words of a run of Markdown, its line breaks kept, code and quotations as one word."""
    parts = []
    for child in inline.children or ():
        if child.type == "code_inline":
            parts.append(_STAND_IN)
        elif child.type in ("softbreak", "hardbreak"):
            parts.append("\n")
        elif child.type == "text":
            parts.append(child.content)
    return re.sub(r'"[^"\n]{1,200}"', _STAND_IN, "".join(parts))


def package_texts(root: Path = ROOT) -> Iterator[Text]:
    """Yield the texts of the package's modules and of the console's templates."""
    for folder in PACKAGES:
        for path in sorted((root / folder).rglob("*.py")):
            yield from python_texts(str(path.relative_to(root)), path.read_text(encoding="utf-8"))
        for path in sorted((root / folder).rglob("*.html")):
            yield from template_texts(str(path.relative_to(root)), path.read_text(encoding="utf-8"))


def python_texts(file: str, source: str) -> Iterator[Text]:
    """Yield docstrings, strings with a space in them, and comments; adjacent ones are one text. Last: the source."""
    starts = _line_starts(source)
    marked = {number for number, line in enumerate(source.splitlines(), 1) if KEEP in line}
    kept = marked | {number + 1 for number in marked}
    group: list[tuple[str, int]] = []
    kind, end = "", 0
    for found in _PYTHON.finditer(source):
        literal = found["literal"]  # without its prefix (f, r, b): a search for quotes alone is twice as fast
        begin, number = found.start(), bisect_right(starts, found.start())
        own_line = not source[starts[number - 1] : begin].strip("rf ")
        if literal is None:
            now, words = "comment", re.sub(r"^#+:? ?|\bnoqa\b[^-]*-? ?|\btype: ignore\S*", "", found["comment"])
        elif literal[:3] in ('"""', "'''"):
            now = "docstring" if own_line and source[:begin].rstrip()[-1:] not in ("(", ",", "=") else "block"
            words = literal[3:-3]
        else:
            now, words = (
                "message",
                _message(literal[1:-1], formatted=bool(re.search(r"[fF][rR]?$", source[max(begin - 2, 0) : begin]))),
            )
        joins = now == kind and not source[end:begin].strip("frb \n") and now in ("message", "comment")
        if not joins or (now == "comment" and not own_line):
            yield from _grouped(kind, file, group)
            group, kind = [], now
        if number not in kept:
            group.append((words, number))
        end = found.end()
    yield from _grouped(kind, file, group)
    yield Text("code", file, source, tuple((start, number) for number, start in enumerate(starts, 1)))


def _message(literal: str, formatted: bool) -> str:
    words = literal.replace("\\n", "  ").replace('\\"', '"').replace("\\'", "'")
    if formatted:
        words = re.sub(r"\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}", _STAND_IN, words.replace("{{", "").replace("}}", ""))
    return re.sub(r"%(?:\(\w+\))?[sdr]|%\.\d+f", _STAND_IN, words)


def _grouped(kind: str, file: str, group: Sequence[tuple[str, int]]) -> Iterator[Text]:
    if not group:
        return
    if kind == "docstring":
        (words, number), *_ = group
        yield _text("docstring", file, _without_code(words), number)
        return
    glue = "\n" if kind == "comment" else ""
    offset, lines = 0, []
    for words, number in group:
        lines.append((offset, number))
        offset += len(words) + len(glue)
    text = glue.join(words for words, _ in group)
    if kind == "comment" or (kind == "message" and " " in text.strip()):
        yield Text(kind, file, _CODE.sub(lambda code: _STAND_IN.ljust(len(code.group())), text), tuple(lines))


def _without_code(docstring: str) -> str:
    """Return a docstring with inline code as one word and its indented examples as blank lines."""
    text = _CODE.sub(lambda code: _STAND_IN + "\n" * code.group().count("\n"), docstring)
    lines = text.split("\n")
    indents = [len(line) - len(line.lstrip()) for line in lines[1:] if line.strip()]
    base = min(indents, default=0)
    shown = [lines[0], *("" if len(line) - len(line.lstrip()) >= base + 4 else line.strip() for line in lines[1:])]
    return "\n".join(line if not line.startswith((">>>", "$ ")) else "" for line in shown)


def template_texts(file: str, source: str) -> Iterator[Text]:
    """Yield the words between the tags of a template, and those of its titles, labels and placeholders."""
    blank = re.sub(
        r"\{#.*?#\}|\{%.*?%\}|<!--.*?-->|<script.*?</script>|<(?:code|pre)\b.*?</(?:code|pre)>",
        lambda part: re.sub(r"[^\n]", " ", part.group()),
        re.sub(r"\{\{.*?\}\}", lambda part: _STAND_IN.ljust(len(part.group())), source, flags=re.DOTALL),
        flags=re.DOTALL,
    )
    starts = _line_starts(source)
    found = re.finditer(r">([^<>]+)<|(?:title|aria-label|placeholder|data-confirm)=\"([^\"]+)\"", blank)
    for match in found:
        words, begin = match[match.lastindex or 1], match.start(match.lastindex or 1)
        if " " in words.strip():
            begin += len(words) - len(words.lstrip())
            yield _text("template", file, words.strip(), bisect_right(starts, begin))


def names_of_tests(root: Path = ROOT) -> Iterator[Text]:
    """Yield the name of each test as words, without ``test_``."""
    for path in sorted((root / "tests").rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        starts = _line_starts(source)
        for found in re.finditer(r"def test_(\w+)", source):
            name = found[1].replace("_", " ")
            yield _text("test name", str(path.relative_to(root)), name, bisect_right(starts, found.start()))


def _text(kind: str, file: str, text: str, line: int) -> Text:
    return Text(kind, file, text, tuple((start, line + number) for number, start in enumerate(_line_starts(text))))


def _line_starts(text: str) -> list[int]:
    return [0, *(found.end() for found in re.finditer("\n", text))]
