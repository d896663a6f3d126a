"""A terminal's output as a picture.

``FORCE_COLOR=1 connectrt top --once | python -m tools.terminal_picture TITLE > top.svg``.
Owns the colours that stand for a terminal's, on a light and on a dark page.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from xml.sax.saxutils import escape

from tools.svg import box, picture

_SGR = re.compile(r"\x1b\[([0-9;]*)m")
_CLASSES = {"1": "head", "2": "soft", "31": "bad", "32": "good", "33": "b", "36": "a"}
_STYLE = """<style>
  .term { font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; white-space: pre; }
  .bad { fill: #b42318; } .good { fill: #1a7f37; }
  @media (prefers-color-scheme: dark) { .bad { fill: #ff8a80; } .good { fill: #56d364; } }
</style>"""
_LINE_PX, _CHARACTER_PX, _EDGE_PX = 19, 7.9, 14


def terminal_picture(title: str, output: str) -> str:
    """Return the SVG of what a command wrote, its colours as they were."""
    lines = output.rstrip("\n").expandtabs().split("\n")
    width = int(max(len(_SGR.sub("", line)) for line in lines) * _CHARACTER_PX) + 2 * _EDGE_PX
    height = len(lines) * _LINE_PX + 2 * _EDGE_PX
    shapes = [_STYLE, box(0.5, 0.5, width - 1, height - 1)]
    for number, line in enumerate(lines):
        spans = "".join(f'<tspan class="{kind}">{escape(words)}</tspan>' for words, kind in _spans(line))
        base = _EDGE_PX + number * _LINE_PX + 13
        shapes.append(f'<text xml:space="preserve" class="term" x="{_EDGE_PX}" y="{base}">{spans}</text>')
    return picture(width, height, title, shapes)


def _spans(line: str) -> Iterator[tuple[str, str]]:
    kind = ""
    for number, part in enumerate(_SGR.split(line)):
        if number % 2:
            kind = " ".join(_CLASSES[code] for code in part.split(";") if code in _CLASSES)
        elif part:
            yield part, kind


if __name__ == "__main__":
    sys.stdout.write(terminal_picture(" ".join(sys.argv[1:]), sys.stdin.read()))
