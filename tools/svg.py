"""A few shapes of SVG, readable on a light and on a dark page. Pure: texts in, text out."""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape

# fg: text, soft: text of less weight, line: borders, a and b: the two colours that mean something
_STYLE = """
  svg { --fg: #1f2328; --soft: #59636e; --line: #8c959f; --a: #2f6feb; --b: #d1782a; --fill: #eef2f6;
    --pure: #dcebdd; }
  @media (prefers-color-scheme: dark) {
    svg { --fg: #e6edf3; --soft: #9aa4ae; --line: #6e7681; --a: #58a6ff; --b: #e3974f; --fill: #22272e;
      --pure: #213a2a; }
  }
  text { font: 13px system-ui, sans-serif; fill: var(--fg); }
  .soft { fill: var(--soft); font-size: 12px; } .head { font-weight: 600; }
  .mono { font-family: ui-monospace, monospace; }
  .box { fill: var(--fill); stroke: var(--line); } .pure { fill: var(--pure); stroke: var(--line); }
  .a { fill: var(--a); } .b { fill: var(--b); } .line { stroke: var(--line); fill: none; }
"""


def picture(width: int, height: int, title: str, shapes: Sequence[str]) -> str:
    """Return a whole SVG file; ``title`` is what a screen reader says. Lengths in px."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img">'
    return "\n".join([head, f"<title>{escape(title)}</title>", f"<style>{_STYLE}</style>", *shapes, "</svg>\n"])


def text(x: float, y: float, words: str, kind: str = "", anchor: str = "start") -> str:
    """Return one line of text whose base line begins (or, by ``anchor``, ends or is centred) at (x, y)."""
    return f'<text x="{x:g}" y="{y:g}" class="{kind}" text-anchor="{anchor}">{escape(words)}</text>'


def box(x: float, y: float, width: float, height: float, kind: str = "box") -> str:
    """Return a rectangle."""
    return f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="4" class="{kind}"/>'


def line(x1: float, y1: float, x2: float, y2: float) -> str:
    """Return a straight line."""
    return f'<path d="M{x1:g} {y1:g} L{x2:g} {y2:g}" class="line"/>'
