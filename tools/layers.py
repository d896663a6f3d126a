"""Draws the layers of ``.importlinter`` for docs/explanation/architecture.md: a picture, a table of what each holds.

``python -m tools.layers`` writes both; tests/unit/test_docs.py fails when what is committed says something else.
"""

from __future__ import annotations

import ast
import configparser
from pathlib import Path

from tools.svg import box, line, picture, text

ROOT = Path(__file__).parents[1]
PACKAGE = "spark_connect_rt"
PICTURE = Path("docs/images/layers.svg")
PAGE = Path("docs/explanation/architecture.md")
BEGIN, END = "<!-- layers: written by python -m tools.layers -->", "<!-- layers: end -->"
_WIDTH, _ROW, _GAP, _LEFT = 860, 30, 14, 10


def layers() -> list[list[str]]:
    """Return the layers from top to bottom, each with its modules as declared."""
    declared = _contracts()["importlinter:contract:layers"]["layers"]
    return [[name.strip() for name in row.replace(":", "|").split("|")] for row in declared.splitlines() if row.strip()]


def pure() -> set[str]:
    """Return the names of the modules that the contract of the pure core lists whole."""
    declared = _contracts()["importlinter:contract:pure"]["source_modules"]
    return {name.removeprefix(f"{PACKAGE}.") for name in declared.split()}


def _contracts() -> configparser.ConfigParser:
    found = configparser.ConfigParser()
    found.read(ROOT / ".importlinter", encoding="utf-8")
    return found


def drawn() -> str:
    """Return the picture: a row a layer, green what is pure."""
    shapes, y, core = [], 34, pure()
    shapes.append(
        text(
            _LEFT,
            20,
            "A module imports from the rows below its own, and from its right in its own row: never back, never up.",
        )
    )
    for row in layers():
        x = float(_LEFT)
        for name in row:
            width = 24 + 7.9 * len(name)
            shapes += [box(x, y, width, _ROW, "pure" if name in core else "box")]
            shapes += [text(x + width / 2, y + 20, name, "mono", "middle")]
            x += width + 10
        shapes.append(line(_LEFT, y + _ROW + _GAP / 2, _WIDTH - _LEFT, y + _ROW + _GAP / 2))
        y += _ROW + _GAP
    shapes.append(
        text(
            _LEFT,
            y + 14,
            "Green: wholly pure. No client, thread, socket, clock, chance or log. Parts of other modules are, too.",
            "soft",
        )
    )
    return picture(_WIDTH, y + 26, "The layers of the package, from the command line down to the errors", shapes)


def table() -> str:
    """Return one Markdown row a module, from top to bottom, with the first line of what it says of itself."""
    rows = [f"| `{name}` | {_purpose(name)} |" for row in layers() for name in row]
    return "\n".join(["| Module | What it is |", "|---|---|", *rows])


def _purpose(name: str) -> str:
    folder = ROOT / PACKAGE / name
    file = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
    said = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    return said.splitlines()[0].replace("``", "`").replace("|", "\\|")


def page(committed: str) -> str:
    """Return the page with the table between its two marks."""
    before, _, rest = committed.partition(BEGIN)
    return f"{before}{BEGIN}\n{table()}\n{END}{rest.partition(END)[2]}"


def main() -> None:
    """Write the picture and the table."""
    (ROOT / PICTURE).write_text(drawn(), encoding="utf-8")
    committed = (ROOT / PAGE).read_text(encoding="utf-8")
    (ROOT / PAGE).write_text(page(committed), encoding="utf-8")


if __name__ == "__main__":
    main()
