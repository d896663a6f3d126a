"""`connectrt table status|maintain` on the file of a connector."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_connect_rt.connectors.lakehouse.commands import maintain_tables, show_status
from spark_connect_rt.errors import BadConfigError
from tests.contract.table_store_contract import rows_of
from tests.unit.connectors.lakehouse.test_iceberg_upkeep import NAME, Lake


@pytest.fixture
def config(tmp_path: Path) -> dict[str, str]:
    return {
        "name": "sink",
        "topics": "orders",
        "iceberg.tables": NAME,
        "iceberg.catalog": "lake",
        "iceberg.catalog.type": "sql",
        "iceberg.catalog.uri": f"sqlite:///{tmp_path / 'catalog.db'}",
        "iceberg.catalog.warehouse": (tmp_path / "warehouse").as_uri(),
    }


def test_maintain_reports_each_step_and_keeps_the_rows(
    tmp_path: Path, config: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    lake = Lake(tmp_path, [])
    path = lake.commit(1, 2)[0]
    lake.commit(3, dead={path: [0]})
    lake.loaded().write(rows_of(9))
    assert maintain_tables(config, (), 1, 3.0, apply=False) == 0
    out = capsys.readouterr().out
    assert f"{NAME}: 2 files rewritten to 1, 1 delete files removed, 0 times" in out
    assert f"{NAME}: 1 snapshots expired" in out
    assert "0 orphans" in out  # it is too young
    assert lake.ids() == [2, 3]
    assert show_status(config) == 0
    out = capsys.readouterr().out
    assert "2 snapshots, 1 data files" in out
    assert "orders-0: next offset 2, topic id T" in out


def test_missing_table_is_reported(config: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert show_status(config) == 0
    assert maintain_tables(config, (), 1, 3.0, apply=True) == 0
    assert capsys.readouterr().out.count("does not exist") == 2


def test_wrong_arguments_are_refused(config: dict[str, str]) -> None:
    with pytest.raises(BadConfigError, match="at least 1"):
        maintain_tables(config, (), 1, 0.01, apply=True)
    with pytest.raises(BadConfigError, match=r"shop\.other is not in"):
        maintain_tables(config, ("shop.other",), 1, 3.0, apply=True)
