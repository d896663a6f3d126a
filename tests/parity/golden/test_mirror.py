"""MirrorMaker's rules, records and settings are Java 4.1.1's: what its classes answered, ours answer."""

from __future__ import annotations

from typing import Any

import pytest

from tests.parity.cases_of_mirror import OURS, cases
from tests.parity.golden.recordings import recording

RECORDED = recording("mirror")["cases"]


@pytest.mark.parametrize("what", sorted(OURS))
def test_ours_answer_as_javas_classes_do(what: str) -> None:
    asked = [pair for pair in RECORDED if pair["case"]["what"] == what]
    assert asked
    for pair in asked:
        ours, java = OURS[what](pair["case"]), pair["java"]
        if what == "settings":  # those of TLS and SASL in an order of their own
            ours, java = _in_order(ours), _in_order(java)
            ours = [setting for setting in ours if not setting[0].startswith(("connectrt.", "on."))]
        assert ours == java, pair["case"]


def test_the_recording_is_of_these_cases() -> None:
    assert [pair["case"] for pair in RECORDED] == cases()


def _in_order(settings: list[list[Any]]) -> list[list[Any]]:
    security = [setting for setting in settings if setting[0].startswith(("ssl.", "sasl."))]
    return [*sorted(security), *(setting for setting in settings if setting not in security)]
