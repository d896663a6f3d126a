"""Version ranges of plug-ins, as in KIP-891."""

from __future__ import annotations

import pytest

from spark_connect_rt.errors import BadConfigError
from spark_connect_rt.plugins.registry import requirement, version_order

VERSIONS = ["0.9", "1.0", "1.5", "2.0", "2.1rc1", "10.0"]


@pytest.mark.parametrize(
    ("text", "accepted"),
    [
        ("1.0", ["1.0"]),
        ("1.0.0", ["1.0"]),
        ("[1.0]", ["1.0"]),
        ("[1.0,2.0)", ["1.0", "1.5"]),
        ("(1.0, 2.0]", ["1.5", "2.0"]),
        ("(,1.0]", ["0.9", "1.0"]),
        ("[2.0,)", ["2.0", "2.1rc1", "10.0"]),
        ("(,1.0),[2.0,2.1)", ["0.9", "2.0", "2.1rc1"]),
        ("3", []),
        ("nonsense", []),
    ],
)
def test_a_range_accepts_what_lies_in_it(text: str, accepted: list[str]) -> None:
    accepts = requirement(text, "connector.plugin.version")
    assert accepts is not None
    assert [version for version in VERSIONS if accepts(version)] == accepted
    assert not accepts(None)


@pytest.mark.parametrize("text", [None, "", " ", "latest", "LATEST"])
def test_nothing_and_latest_accept_every_version(text: str | None) -> None:
    assert requirement(text, "connector.plugin.version") is None


@pytest.mark.parametrize("text", ["[1.0", "[a,b]", "[1.0,2.0]x", "[1,2,3]"])
def test_invalid_version_range_is_refused_by_name(text: str) -> None:
    with pytest.raises(BadConfigError) as refused:
        requirement(text, "connector.plugin.version")
    assert list(refused.value.problems) == ["connector.plugin.version"]


def test_versions_are_ordered_as_numbers_and_invalid_ones_come_first() -> None:
    assert max(VERSIONS, key=version_order) == "10.0"
    assert min([*VERSIONS, "unreadable"], key=version_order) == "unreadable"
