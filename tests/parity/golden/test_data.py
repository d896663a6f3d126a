"""Every recorded case of Java's Values, transformations, predicates, converters and JAAS, put to ours."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import pytest

from tests.parity.data_answers import difference
from tests.parity.golden.recordings import data_cases

SETS = ("data-values", "data-transforms", "data-converters", "data-jaas")
JSON = "org.apache.kafka.connect.json.JsonConverter"
DAMAGED = [
    base64.b64encode(text).decode()
    for text in (
        b'{"schema": {"type": "int8"}, "payload": 300}',
        b'{"schema": {"type": "boolean"}, "payload": 1}',
        b'{"schema": {"type": "string"}, "payload": 5}',
        b'{"schema": {"type": "array", "items": {"type": "int32"}}, "payload": 5}',
        b"1 2",
    )
]
CUTOVER_MS = -12_219_292_800_000
FIRST_MS, LAST_MS = -62_135_596_800_000, 253_402_300_799_999


def _outside_of_pythons_years(_: Any, java: Any) -> bool:
    return isinstance(java, dict) and "date" in java and not FIRST_MS <= java["date"] <= LAST_MS


def _java_trips_over_itself(case: Any, java: Any) -> bool:
    errors = ("SchemaBuilderException", "StackOverflowError")
    no_step = case.get("config", {}).get("field") == "" and "field.syntax.version" in case["config"]
    return no_step or (isinstance(java, dict) and java.get("error", [""])[0] in errors)


def _silent_damage(case: Any, java: Any) -> bool:
    return case.get("class") == JSON and case["kind"] == "read" and case["bytes"] in DAMAGED and "error" not in java


def _class_in_a_class(case: Any, _: Any) -> bool:
    return "&&" in (case.get("config") or {}).get("regex", "")


def _weeks_of_the_cutover(case: Any, _: Any) -> bool:
    return case["kind"] == "date_format" and case["ms"] == CUTOVER_MS and case["pattern"] in ("F", "W")


WANTED: dict[str, Callable[[Any, Any], bool]] = {
    "Python has no dates before year 1 and after 9999": _outside_of_pythons_years,
    "Java fails with an inner error: a schema of nulls, a default of a struct, a path without a step": (
        _java_trips_over_itself
    ),
    "JSON that is not of its schema's type: Java wraps it, drops it, or reads the first of two; ours says so": (
        _silent_damage
    ),
    "character classes inside of character classes": _class_in_a_class,
    "the weeks of October 1582, where the calendar changed": _weeks_of_the_cutover,
}


def cases_by_kind() -> dict[tuple[str, str], list[Any]]:
    found: dict[tuple[str, str], list[Any]] = {}
    for name in SETS:
        for pair in data_cases(name):
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
    assert len(excused) < 40


def test_there_are_many_cases() -> None:
    assert sum(map(len, CASES.values())) > 4_000
