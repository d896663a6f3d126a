"""Tables of random histories have exactly the expected rows, after each commit and for two engines each.

Spark reads them too, in `tests/lakehouse_proofs`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.table_histories import DeltaHistory, IcebergHistory

STEPS, CHANGES = 7, 60


@pytest.mark.parametrize(
    ("seed", "upsert", "partition_by"),
    [(1, False, ""), (2, False, "region"), (3, True, ""), (4, True, "region, bucket(3, id)")],
)
def test_pyiceberg_and_duckdb_read_the_rows_of_an_iceberg_history(
    tmp_path: Path, seed: int, upsert: bool, partition_by: str
) -> None:
    history = IcebergHistory(tmp_path, seed, upsert=upsert, partition_by=partition_by)

    def check() -> None:
        expected = history.expected()
        assert history.by_pyiceberg() == expected
        assert history.by_duckdb() == expected

    history.run(STEPS, CHANGES, check)
    assert len(history.rows) >= 30


@pytest.mark.parametrize(
    ("seed", "upsert", "partition_by"), [(1, False, ""), (2, False, "region"), (3, True, ""), (4, True, "region")]
)
def test_delta_rs_and_duckdb_read_the_rows_of_a_delta_history(
    tmp_path: Path, seed: int, upsert: bool, partition_by: str
) -> None:
    history = DeltaHistory(tmp_path, seed, upsert=upsert, partition_by=partition_by)

    def check() -> None:
        expected = history.expected()
        assert history.by_delta_rs() == expected
        assert history.by_duckdb() == expected

    history.run(STEPS, CHANGES, check)
    assert len(history.rows) >= 30
