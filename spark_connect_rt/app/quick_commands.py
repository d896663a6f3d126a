"""The everyday words without the command line's library, whose imports cost more than what they do.

Owns which lines are read here: those that every reader understands in the same way. Help, completion and a line with
a mistake are left to the command line itself, so that a message has one source.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from spark_connect_rt.cli.session import CommandContext, Session, opened, run
from spark_connect_rt.cli.tables import Output

Reader = Callable[[str], Any]
Act = Callable[..., int]


def _text(text: str) -> str:
    return text


def _limit(text: str) -> int:
    number = int(text)
    if not 1 <= number <= 2_000:
        raise ValueError(text)
    return number


def _interval(text: str) -> float:
    return _at_least(0.1, text)


def _timeout(text: str) -> float:
    return _at_least(0.0, text)


def _at_least(least: float, text: str) -> float:
    number = float(text)
    if not least <= number < float("inf"):
        raise ValueError(text)
    return number


@dataclass(frozen=True, slots=True)
class QuickWord:
    """One command: how many arguments it takes, and its options.

    ``options``: option -> (parameter, how its text is read). ``switches``: option -> parameter. A line with another
    option of the command is not for this reader. ``defaults``: values of parameters that a line does not have.
    """

    act: Act
    least: int
    most: int | None
    options: Mapping[str, tuple[str, Reader]]
    switches: Mapping[str, str] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)


def _get(session: Session, words: Sequence[str], **given: Any) -> int:
    from spark_connect_rt.cli.get import get_or_watch

    return get_or_watch(session, words[0], words[1:], **given)


def _describe(session: Session, words: Sequence[str], **given: Any) -> int:
    from spark_connect_rt.operations.connectors.describe import describe

    return describe(session, words, **given)


def _steer(verb: str, session: Session, words: Sequence[str], dry_run: bool, **many: Any) -> int:
    from spark_connect_rt.operations.connectors import lifecycle as steering

    return steering.steer(session, steering.VERBS[verb], _chosen(words, **many), dry_run)


def _restart(session: Session, words: Sequence[str], connector_only: bool, dry_run: bool, **many: Any) -> int:
    from spark_connect_rt.operations.connectors import lifecycle as steering

    return steering.restart(session, _chosen(words, **many), connector_only, dry_run)


def _chosen(words: Sequence[str], selection: str | None, failed: bool, all_: bool) -> Any:
    from spark_connect_rt.cli.options import Chosen

    return Chosen(words, selection, failed, all_)


def _wait(session: Session, words: Sequence[str], condition: str, timeout: float) -> int:
    from spark_connect_rt.operations.connectors import lifecycle as steering

    return steering.wait(session, words, condition, timeout)


def _logs(session: Session, words: Sequence[str], **given: Any) -> int:
    from spark_connect_rt.operations.events import actions as following

    return following.logs(session, words[0], **given)


_CLUSTER: Mapping[str, tuple[str, Reader]] = {"--context": ("context", _text), "--url": ("url", _text)}
_FORM: Mapping[str, tuple[str, Reader]] = {"--output": ("output", Output), "-o": ("output", Output)}
_SELECTION: Mapping[str, tuple[str, Reader]] = {"--selector": ("selection", _text), "-l": ("selection", _text)}
_MANY = {**_CLUSTER, **_SELECTION, "--note": ("note", _text)}
_MANY_SWITCHES = {"--failed": "failed", "--all": "all_", "--dry-run": "dry_run"}
_MANY_DEFAULTS = {"selection": None, "failed": False, "all_": False, "dry_run": False}
QUICK_WORDS: Mapping[str, QuickWord] = {
    "get": QuickWord(
        _get,
        1,
        None,
        {**_CLUSTER, **_FORM, **_SELECTION, "--interval": ("interval", _interval), "--limit": ("limit", _limit)},
        {"--watch": "watch", "-w": "watch"},
        {"output": Output.TABLE, "selection": None, "watch": False, "interval": 2.0, "limit": 100},
    ),
    "describe": QuickWord(_describe, 1, 2, {**_CLUSTER, **_FORM}, {}, {"output": Output.TABLE}),
    **{
        verb: QuickWord(partial(_steer, verb), 0, None, _MANY, _MANY_SWITCHES, _MANY_DEFAULTS)
        for verb in ("pause", "resume", "stop")
    },
    "restart": QuickWord(
        _restart,
        0,
        None,
        _MANY,
        {**_MANY_SWITCHES, "--connector-only": "connector_only"},
        {**_MANY_DEFAULTS, "connector_only": False},
    ),
    "wait": QuickWord(
        _wait,
        1,
        None,
        {**_CLUSTER, "--for": ("condition", _text), "--timeout": ("timeout", _timeout)},
        {},
        {"condition": "state=RUNNING", "timeout": 60.0},
    ),
    "logs": QuickWord(
        _logs,
        1,
        1,
        {**_CLUSTER, **_FORM, "--tail": ("tail", _limit), "--level": ("level", _text)},
        {"--follow": "follow", "-f": "follow"},
        {"tail": 1_000, "level": "", "follow": False, "output": Output.TABLE},
    ),
}


def run_quickly(line: Sequence[str], around: CommandContext | None = None) -> int | None:
    """Run a command line and return its exit code; None: the whole command line must read it."""
    if not line or line[0] not in QUICK_WORDS or "_CONNECTRT_COMPLETE" in os.environ:
        return None
    word = QUICK_WORDS[line[0]]
    read = read_line(word, line[1:])
    if read is None:
        return None
    words, given = read
    context, url, note = (given.pop(name, None) for name in ("context", "url", "note"))
    session = opened(around or CommandContext(), context, url, note)
    return run(session, lambda session: word.act(session, words, **given))


def read_line(word: QuickWord, line: Sequence[str]) -> tuple[list[str], dict[str, Any]] | None:
    """Return the arguments and the options of a line; None: it is not for this reader."""
    words: list[str] = []
    given: dict[str, Any] = dict(word.defaults)
    parts = iter(line)
    for part in parts:
        if not part.startswith("-"):
            words.append(part)
            continue
        option, equals, text = part.partition("=")
        if part in word.switches:
            given[word.switches[part]] = True
            continue
        if option not in word.options or (equals and not option.startswith("--")):
            return None
        text = text if equals else next(parts, "-")
        if text.startswith("-"):
            return None
        name, read = word.options[option]
        try:
            given[name] = read(text)
        except ValueError:
            return None
    if len(words) < word.least or (word.most is not None and len(words) > word.most):
        return None
    return words, given
