"""Versions and version ranges of plug-ins (KIP-891): ``1.2`` is exactly that, ``[1.0,2.0)`` a range, ``latest``.

Pure. Ranges are written as Maven writes them, because that is what Java Connect reads (``PluginUtils``); versions are
ordered as Python orders them (PEP 440), and those of Java plug-ins that are none of Python's (``3.7.0.Final``) as Maven
orders these: ``Alpha``, ``Beta``, ``CR`` and ``SNAPSHOT`` before the version, other words after it.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from packaging.version import InvalidVersion, Version

from spark_connect_rt.errors import BadConfigError

Accepts = Callable[[str | None], bool]
_LOWEST = Version("0.dev0")
_MAVEN = re.compile(r"^(\d+(?:\.\d+)*)[.-]([A-Za-z]+)[.-]?(\d*)$")
_FINAL = {"final", "ga", "release"}
_BEFORE = {"alpha": "a", "beta": "b", "milestone": "b", "m": "b", "cr": "rc", "rc": "rc", "snapshot": ".dev"}


def version_order(text: str | None) -> Version:
    """Return what versions are sorted by; one that is none comes first."""
    try:
        return _parsed(text or "")
    except InvalidVersion:
        return _LOWEST


def _parsed(text: str) -> Version:
    """Return Python's version, or Maven's as one. Raises InvalidVersion."""
    found = _MAVEN.match(text.strip())
    word = found.group(2).lower() if found else ""
    if found and word in _FINAL:
        return Version(found.group(1))
    if found and word in _BEFORE:
        return Version(f"{found.group(1)}{_BEFORE[word]}{found.group(3) or 0}")
    try:
        return Version(text)
    except InvalidVersion:
        if found is None:
            raise
        return Version(f"{found.group(1)}+{word}{found.group(3)}")


def requirement(text: str | None, setting: str) -> Accepts | None:
    """Return the test of ``*.plugin.version``; None: any version will do, the newest is taken.

    Raises BadConfigError naming ``setting``.
    """
    wanted = (text or "").strip()
    if not wanted or wanted.lower() == "latest":
        return None
    if wanted[0] not in "[(":
        return lambda version: version == wanted or _equal(version, wanted)
    try:
        tests = [_interval(interval) for interval in _intervals(wanted)]
    except (InvalidVersion, ValueError) as error:
        # prose: keep - a golden transcript has these words
        raise BadConfigError({setting: [f"{wanted} is no version and no range such as [1.0,2.0): {error}"]}) from error
    return lambda version: version is not None and any(test(version_order(version)) for test in tests)


def _equal(version: str | None, wanted: str) -> bool:
    try:
        return _parsed(version or "") == _parsed(wanted)
    except InvalidVersion:
        return False


def _intervals(text: str) -> list[str]:
    """Split ``[1,2),[3,4]`` at the commas between intervals."""
    found: list[str] = []
    rest = text.replace(" ", "")
    while rest:
        end = min((at for at in (rest.find("]"), rest.find(")")) if at >= 0), default=-1)
        if rest[0] not in "[(" or end < 0:
            raise ValueError("an interval begins with [ or ( and ends with ] or )")
        found.append(rest[: end + 1])
        rest = rest[end + 1 :].removeprefix(",")
    return found


def _interval(text: str) -> Callable[[Version], bool]:
    low_text, comma, high_text = text[1:-1].partition(",")
    if not comma:
        exact = _parsed(low_text)
        return lambda version: version == exact
    low = _parsed(low_text) if low_text else None
    high = _parsed(high_text) if high_text else None
    with_low, with_high = text[0] == "[", text[-1] == "]"

    def accepts(version: Version) -> bool:
        above = low is None or version > low or (with_low and version == low)
        below = high is None or version < high or (with_high and version == high)
        return above and below

    return accepts
