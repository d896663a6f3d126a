"""Modules of the tests that CI does not run can be imported: a fixture that was moved must not break them unseen."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
FOLDERS = ("conformance", "java_proofs", "lakeflow_proofs", "lakehouse_proofs", "programs", "shipped", "system")
MODULES = sorted(file for name in FOLDERS for file in (TESTS / name).rglob("test_*.py"))


@pytest.mark.parametrize("file", MODULES, ids=lambda file: file.relative_to(TESTS).as_posix())
def test_a_module_that_ci_does_not_run_can_be_imported(file: Path) -> None:
    name = ".".join(file.relative_to(TESTS.parent).with_suffix("").parts)
    assert [found for found in vars(importlib.import_module(name)) if found.startswith("test_")]
