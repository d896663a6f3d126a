"""Every recorded case of Java's Values, transformations, predicates and converters, put to ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.parity.data_answers import difference
from tests.parity.golden.recordings import recording

SETS = ("data-values",)
CUTOVER_MS = -12_219_292_800_000
FIRST_MS, LAST_MS = -62_135_596_800_000, 253_402_300_799_999


def _outside_of_pythons_years(_: Any, java: Any) -> bool:
    return isinstance(java, dict) and "date" in java and not FIRST_MS <= java["date"] <= LAST_MS


def _java_trips_over_itself(_: Any, java: Any) -> bool:
    return isinstance(java, dict) and java.get("error", [""])[0] == "SchemaBuilderException"


def _weeks_of_the_cutover(case: Any, _: Any) -> bool:
    return case["kind"] == "date_format" and case["ms"] == CUTOVER_MS and case["pattern"] in ("F", "W")


WANTED: dict[str, Callable[[Any, Any], bool]] = {
    "Python has no dates before year 1 and after 9999": _outside_of_pythons_years,
    "no schema can be told from nulls alone; Java fails with an inner error": _java_trips_over_itself,
    "the weeks of October 1582, where the calendar changed": _weeks_of_the_cutover,
}


def cases_by_kind() -> dict[tuple[str, str], list[Any]]:
    found: dict[tuple[str, str], list[Any]] = {}
    for name in SETS:
        for pair in recording(name)["cases"]:
            subject = pair["case"].get("class", pair["case"]["kind"]).rpartition(".")[2]
            found.setdefault((name, subject), []).append(pair)
    return found


CASES = cases_by_kind()


@pytest.mark.parametrize(("name", "subject"), CASES)
def test_ours_gives_what_java_gave(name: str, subject: str) -> None:
    different = {}
    for pair in CASES[name, subject]:
        case, java = pair["case"], pair["java"]
        if any(reason(case, java) for reason in WANTED.values()):
            continue
        found = difference(case, java)
        if found:
            different[str(case)] = found
    assert different == {}


def test_the_wanted_differences_are_few_and_each_is_one() -> None:
    excused = [
        (reason, difference(pair["case"], pair["java"]))
        for pairs in CASES.values()
        for pair in pairs
        for reason, applies in WANTED.items()
        if applies(pair["case"], pair["java"])
    ]
    assert {reason for reason, found in excused if found is not None} == set(WANTED)
    assert len(excused) < 30


def test_there_are_many_cases() -> None:
    assert sum(map(len, CASES.values())) > 2_000
