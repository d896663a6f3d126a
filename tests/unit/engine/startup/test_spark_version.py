"""What each Spark lacks of what the package uses; no other module asks for the version."""

from __future__ import annotations

import re
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import datasource

from spark_connect_rt.engine.startup.spark_version import (
    FEATURES,
    JAVA_23,
    OLDEST,
    PUSHED_FILTERS,
    STREAM_ARROW_WRITERS,
    STREAM_LIMITS,
    UNIX_SOCKETS,
    ZONE_OF_ARROW_TYPES,
    Feature,
    has,
    minor_of,
    runs_on_java,
    what_is_off,
)

ROOT = Path(__file__).parents[4]
SINCE_4_1 = {UNIX_SOCKETS, PUSHED_FILTERS, STREAM_ARROW_WRITERS}
SINCE_4_2 = {STREAM_LIMITS, ZONE_OF_ARROW_TYPES, JAVA_23}


@pytest.mark.parametrize(
    ("version", "lacking"),
    [
        ("4.0.0", SINCE_4_1 | SINCE_4_2),
        ("4.0.5", SINCE_4_1 | SINCE_4_2),
        ("4.0.1-amzn-0", SINCE_4_1 | SINCE_4_2),
        ("4.1.4", SINCE_4_2),
        ("4.2.0.dev1", set()),
        ("4.2.1", set()),
        ("4.3.0", set()),
        ("4.10.0", set()),
        ("5.0.0", set()),
    ],
)
def test_older_spark_lacks_features(version: str, lacking: set[Feature]) -> None:
    assert {feature for feature in FEATURES if not has(feature, version)} == lacking


def test_one_line_names_what_is_off() -> None:
    assert what_is_off("4.0.5") == (
        "Spark 4.0.5 does not support: unix domain sockets to Python processes (TCP on loopback is used); "
        "filters passed to format connectrt (Spark applies them all); "
        "limits of micro-batches of format connectrt (availableNow is one batch)"
    )
    assert what_is_off("4.1.4") == (
        "Spark 4.1.4 does not support: limits of micro-batches of format connectrt (availableNow is one batch)"
    )
    assert what_is_off("4.2.1") == ""


@pytest.mark.parametrize(
    ("version", "javas"),
    [("4.0.5", {17, 21}), ("4.1.4", {17, 21}), ("4.2.1", {17, 21, 25}), ("4.3.0", {17, 21, 25})],
)
def test_a_java_that_spark_does_not_run_on_is_known(version: str, javas: set[int]) -> None:
    assert {major for major in (8, 11, 17, 21, 25) if runs_on_java(major, version)} == javas


def test_invalid_version_is_refused() -> None:
    with pytest.raises(ValueError, match="'four' is not a valid Spark version"):
        minor_of("four")


def test_the_table_says_what_the_spark_at_hand_has() -> None:
    """The same names that the package imports by the table; run on each Spark by ``./test.sh spark``."""
    found = {
        PUSHED_FILTERS: hasattr(datasource.DataSourceReader, "pushFilters"),
        STREAM_ARROW_WRITERS: hasattr(datasource, "DataSourceStreamArrowWriter"),
        STREAM_LIMITS: (Path(pyspark.__file__).parent / "sql" / "streaming" / "datasource.py").is_file(),
        UNIX_SOCKETS: "PYTHON_UNIX_DOMAIN_ENABLED" in (Path(pyspark.__file__).parent / "daemon.py").read_text(),
    }
    assert {feature: has(feature) for feature in found} == found


def test_the_wheel_asks_for_the_oldest_and_no_other_module_asks_for_the_version() -> None:
    assert f'"pyspark>={".".join(map(str, OLDEST))}",' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    asks = re.compile(r"pyspark\.__version__|spark\.version|pyspark\.version|except ImportError:\s*# Spark")
    package = ROOT / "spark_connect_rt"
    found = {path.name for path in package.rglob("*.py") if asks.search(path.read_text(encoding="utf-8"))}
    assert found == {"spark_version.py"}
