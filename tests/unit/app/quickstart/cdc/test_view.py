"""The texts of quickstart --cdc."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

from rich.console import Console

from spark_connect_rt.app.quickstart.cdc.order_changes import COLUMNS
from spark_connect_rt.app.quickstart.cdc.progress import Difference, Freshness
from spark_connect_rt.app.quickstart.cdc.view import SHOWN_DIFFERENCES, Sight, next_steps, report_lines, side_by_side


def row(key: int, change: int = 0) -> tuple[object, ...]:
    return tuple({"id": key, "change": change}.get(name, name) for name in COLUMNS)


SIGHT = Sight([row(1), row(2, 8)], [row(1)], 1.25)


def test_both_sides_are_shown_next_to_each_other() -> None:
    console = Console(width=120, record=True, file=StringIO())
    console.print(side_by_side("Iceberg", SIGHT))
    shown = console.export_text()
    assert "PostgreSQL: orders, 2 rows" in shown
    assert "Iceberg: shop.orders, 1 rows" in shown
    assert "1.2 s late" in shown


def test_the_report_of_equal_sides_says_so_and_how_late_the_table_was() -> None:
    lines = report_lines("Iceberg", SIGHT, [], Freshness([1.0, 2.0]))
    assert lines[-1].startswith("OK: every row of the source is in shop.orders")
    assert "median 1.0 s, 99 of 100 transactions within 2.0 s (commit interval 1 s)" in lines[1]


def test_the_report_shows_the_first_rows_that_differ() -> None:
    wrong = [Difference(key, row(key), None) for key in range(SHOWN_DIFFERENCES + 5)]
    lines = report_lines("Delta", SIGHT, wrong, Freshness())
    assert lines[1] == "15 rows differ:"
    assert "id 0: PostgreSQL (0, customer" in lines[2]
    assert "Delta has no such row" in lines[2]
    assert lines[-1] == "  and 5 more"
    assert not any("OK" in line for line in lines)


def test_the_next_steps_are_commands() -> None:
    queries = {"pyiceberg": Path("q/a.py"), "spark": Path("q/b.py")}
    ended = next_steps(queries, "bin/python", "psql URL", "connectrt", "http://127.0.0.1:8083/", "connectrt quickstart")
    assert ended[1].split("   ")[-1] == "bin/python q/a.py"
    assert ended[-1] == "  connectrt quickstart --keep"
    kept = next_steps(queries, "bin/python", "psql URL", "connectrt", "http://127.0.0.1:9/", "")
    assert any(line.endswith("psql URL") for line in kept)
    assert kept[-1].endswith("connectrt get connectors --url http://127.0.0.1:9")
