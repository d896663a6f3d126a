"""The table of connectors and tests holds: every bundled connector is in it, and what it names is there."""

from __future__ import annotations

import ast
import re
from functools import cache
from itertools import chain
from pathlib import Path

from spark_connect_rt.plugins.bundled_plugins import BUNDLED

ROOT = Path(__file__).parents[3]
ON_THE_REAL_THING = ("integration/", "e2e/", "parity/live/", "programs/", "lakehouse_proofs/", "shipped/")
CONNECTORS = {
    (plugin.target.rpartition(":")[2], plugin.type)
    for plugin in BUNDLED
    if plugin.type in ("source", "sink") and plugin.listed
}


def table() -> dict[str, list[list[str]]]:
    """Return connector -> the tests of each column."""
    lines = (ROOT / "docs/reference/connector_tests.md").read_text(encoding="utf-8").splitlines()
    rows = [line.strip("|").split("|") for line in lines if line.startswith("| ") and "`" in line]
    return {row[0].strip(): [re.findall(r"`([^`]+)`", column) for column in row[1:]] for row in rows}


@cache
def functions_of(file: str) -> frozenset[str]:
    tree = ast.parse((ROOT / "tests" / file).read_text(encoding="utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def test_every_bundled_connector_is_in_the_table() -> None:
    assert set(table()) == {name for name, _ in CONNECTORS}


def test_every_test_that_is_named_is_there() -> None:
    missing = [
        test
        for columns in table().values()
        for test in chain.from_iterable(columns)
        if test.partition("::")[2] not in functions_of(test.partition("::")[0])
    ]
    assert missing == []


def test_each_has_an_integration_test_on_the_real_thing_a_restart_and_bad_input() -> None:
    for name, (integration, restart, bad) in table().items():
        assert integration, name
        assert all(test.startswith(ON_THE_REAL_THING) for test in integration), name
        assert restart, name
        assert bad, name


def test_each_has_its_settings_on_the_reference_page_and_a_guide() -> None:
    pages = {path.stem for path in (ROOT / "docs/reference/connectors").glob("*.md")}
    assert {name.removesuffix("Connector") for name, _ in CONNECTORS} == pages
    guides = "".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs/howto").glob("*.md")))
    guides += (ROOT / "README.md").read_text(encoding="utf-8")
    assert [name for name, _ in CONNECTORS if name.removesuffix("Connector") not in guides] == []
