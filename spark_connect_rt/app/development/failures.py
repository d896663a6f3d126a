"""What a failure of a connector shows its author: the lines of the author's own files first, then everything."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path

from spark_connect_rt.app.development.project import is_below
from spark_connect_rt.errors import BadConfigError, ConnectError

Line = tuple[str, str | None]
"""(text, style of the terminal)."""


def failure_lines(error: BaseException, folders: Sequence[Path]) -> list[Line]:
    """Return the lines to show.

    First what failed. Then every line of a file below ``folders`` that took part, the one that raised first. Then the
    whole traceback, unless the error is a sentence of this product and no line of the author's took part.
    """
    chain = list(_chain(error))
    lines: list[Line] = [(f"FAILED  {_named(error)}", "red")]
    if isinstance(error, BadConfigError):
        problems = error.problems.items()
        lines = [("FAILED  the configuration is invalid:", "red")]
        lines += [(f"  {setting}: {why}", None) for setting, reasons in problems for why in reasons]
    own = [line for cause in reversed(chain) for line in _own_lines(cause, folders)]
    if chain[-1] is not error and own:
        lines.append((f"        caused by {_named(chain[-1])}", "red"))
    lines += own
    if own or not isinstance(error, ConnectError):
        lines.append(("the whole traceback:", "faint"))
        text = "".join(traceback.format_exception(error)).rstrip().split("\n")
        lines += [(f"  {line}", "faint") for line in text]
    return lines


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and its causes, the root cause last; each once."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        hidden = current.__suppress_context__
        current = current.__cause__ or (None if hidden else current.__context__)


def _own_lines(error: BaseException, folders: Sequence[Path]) -> Iterator[Line]:
    if isinstance(error, SyntaxError) and error.filename and _is_own(error.filename, folders):
        yield from _place(error.filename, error.lineno, "", error.text, folders)
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if _is_own(frame.filename, folders):
            yield from _place(frame.filename, frame.lineno, f" in {frame.name}", frame.line, folders)


def _place(file: str, number: int | None, where: str, text: str | None, folders: Sequence[Path]) -> Iterator[Line]:
    shown = next((str(Path(file).relative_to(folder)) for folder in folders if Path(file).is_relative_to(folder)), file)
    yield f"  {shown}:{number}{where}", "bold"
    if text and text.strip():
        yield f"      {text.strip()}", None


def _is_own(file: str, folders: Sequence[Path]) -> bool:
    return "site-packages" not in Path(file).parts and any(is_below(file, folder) for folder in folders)


def _named(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
