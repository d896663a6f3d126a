"""The fenced code blocks of a page, and the shell commands in them. Pure, but for reading the page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Block:
    """One block: its page, the line of its fence, its language (empty: none) and its text."""

    page: str
    line: int
    language: str
    text: str

    @property
    def first(self) -> str:
        """The first line, which names the block in tables and messages."""
        return self.text.split("\n", 1)[0].strip()


@dataclass(frozen=True, slots=True)
class Command:
    """One shell command, its continuation lines joined, and the output that the page shows after it."""

    line: str
    output: str = ""


def blocks_of(page: Path) -> list[Block]:
    """Return the blocks of a Markdown page, from top to bottom."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(page.name, text.count("\n", 0, found.start()) + 1, found[1], found[2]) for found in _FENCE.finditer(text)
    ]


def commands_in(block: Block) -> list[Command]:
    """Return the commands of a shell block: after ``$ `` prompts with their output, or one on every line."""
    lines = block.text.split("\n")
    if not any(line.startswith("$ ") for line in lines):
        return [Command(line) for line in _joined(lines)]
    found: list[Command] = []
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        line, _, output = part.partition("\n")
        while line.endswith("\\"):
            more, _, output = output.partition("\n")
            line = f"{line[:-1].rstrip()} {more.strip()}"
        found.append(Command(line, output))
    return found


def _joined(lines: list[str]) -> Iterator[str]:
    """Yield whole commands: a backslash or an open quote continues on the next line. Empty lines are left out."""
    held = ""
    for line in lines:
        held = f"{held}\n{line}" if held else line
        if held.endswith("\\"):
            held = held[:-1]
        elif re.sub(r"\s#\s.*", "", held).count("'") % 2 == 0:
            if held.strip():
                yield held.strip()
            held = ""
    if held.strip():
        yield held.strip()
