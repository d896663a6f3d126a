"""Shows the cause of a connector's failure in one line for the operator on duty. Pure.

Owns the order: the most urgent part comes first.
"""

from __future__ import annotations

import re

LINE = 300  # characters
_FRAME = '  File "'
_ERROR_LINE = re.compile(r"^(?P<kind>[A-Za-z_][\w.]*)(?::|$)")
_RAISED = re.compile(r"(?:Caused by: )?(?:[A-Za-z_$][\w$]*\.)+([A-Z][\w$]*)(?:: |$)")  # a class with its package
_SENTENCE = 3  # words: shorter messages are useless without the class, as in UnknownHostException: db.local


def last_line(trace: str | None) -> str:
    """Return the line of a trace with the cause of the failure, cut to the width of a page.

    Python's traces have it behind the last frame, and further lines of the message may follow. Java's have it first,
    and the root cause is in the last "Caused by". The class loses its package, and is left out in front of a sentence.
    """
    lines = [line.strip() for line in (trace or "").strip().splitlines() if line.strip()]
    if not lines:
        return ""
    causes = [line for line in lines if line.startswith("Caused by: ")]
    is_java = any(line.startswith("at ") for line in lines)
    line = _without_package(causes[-1] if causes else lines[0] if is_java else error_of(trace or "").splitlines()[0])
    return line if len(line) <= LINE else f"{line[: LINE - 1]}…"


def error_of(trace: str) -> str:
    """Return the part of a trace behind its frames: the error's class and its whole message. A message is itself."""
    lines = trace.strip().splitlines() or ["(no trace)"]
    frames = [number for number, line in enumerate(lines) if line.startswith(_FRAME)]
    behind = lines[frames[-1] if frames else 0 :]
    starts = [number for number, line in enumerate(behind) if _ERROR_LINE.match(line)]
    return "\n".join(behind[starts[0] :] if starts else lines[-1:] if frames else lines)


def error_kind(error: str) -> str:
    """Return the class that an error of ``error_of`` begins with, with its module, or an empty text."""
    found = _ERROR_LINE.match(error)
    return found["kind"] if found else ""


def _without_package(line: str) -> str:
    raised = _RAISED.match(line)
    if raised is None:
        return line.removeprefix("Caused by: ")
    words = line[raised.end() :]
    return words if len(words.split()) >= _SENTENCE else f"{raised[1]}: {words}" if words else raised[1]
