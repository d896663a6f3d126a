"""A table of plug-in calls: what became of a connector when a call went wrong, a row a call and a column a fault."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

STRESS = "CONNECTRT_STRESS_SECONDS" in os.environ  # ./test.sh stress sets it: all cases, and the table is printed


class OutcomeTable:
    """Outcomes as the tests of a module saw them."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._rows: dict[str, dict[str, str]] = {}

    def note(self, call: str, fault: str, outcome: str) -> None:
        self._rows.setdefault(call, {})[fault] = outcome

    def lines(self) -> list[str]:
        """Return the table, columns aligned. A fault that was not tried for a call is a dash."""
        faults = list(dict.fromkeys(fault for row in self._rows.values() for fault in row))
        cells = [["call", *faults]]
        cells += [[call, *(row.get(fault, "-") for fault in faults)] for call, row in self._rows.items()]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        texts = ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) for row in cells]
        return [self._title, *(text.rstrip() for text in texts)]

    def print(self, config: pytest.Config) -> None:
        """Print it past pytest's capture, in a stress run only."""
        if not STRESS or not self._rows:
            return
        capture = config.pluginmanager.getplugin("capturemanager")
        with capture.global_and_fixture_disabled() if capture else _uncaptured():
            print("\n" + "\n".join(self.lines()), flush=True)


@contextmanager
def _uncaptured() -> Iterator[None]:
    yield


def name_of_fault(wrong: object, names: Mapping[int, str]) -> str:
    """Return the column of a fault: the class of an error, or the name that it has here."""
    return names.get(id(wrong), type(wrong).__name__)
