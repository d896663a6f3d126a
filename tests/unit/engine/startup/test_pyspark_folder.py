"""Processes of Spark import pyspark from its folder where one installation brought the zip and the folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import py4j
import pyspark
import pytest

from spark_connect_rt.engine.startup import pyspark_folder
from spark_connect_rt.engine.startup.pyspark_folder import prefer_folders

HOME = Path(pyspark.__file__).parent
ZIPS = sorted(map(str, (HOME / "python" / "lib").glob("*.zip")), reverse=True)  # pyspark's first, as Spark has them
PATHS = Path(pyspark_folder.__file__).with_suffix(".pth")


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """Return a folder of packages with a pyspark and its py4j as pip installs them."""
    for package in ("pyspark", "py4j"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").touch()
    (tmp_path / "py4j-0.10.9.9.dist-info").mkdir()
    return tmp_path


def zips(home: Path) -> list[str]:
    return [str(home / "python" / "lib" / name) for name in ("pyspark.zip", "py4j-0.10.9.9-src.zip")]


def test_the_zips_of_an_installed_pyspark_go_and_nothing_else(packages: Path) -> None:
    paths = ["", *zips(packages / "pyspark"), "/else/python/lib/pyspark.zip", str(packages), "/x"]
    prefer_folders(paths)
    assert paths == ["", "/else/python/lib/pyspark.zip", str(packages), "/x"]


def test_a_link_to_the_installed_pyspark_is_it(packages: Path) -> None:
    (packages / "spark").symlink_to(packages / "pyspark")
    paths = [*zips(packages / "spark"), str(packages)]
    prefer_folders(paths)
    assert paths == [str(packages)]


def test_another_py4j_stays_in_its_zip(packages: Path) -> None:
    (packages / "py4j-0.10.9.9.dist-info").rename(packages / "py4j-0.10.9.7.dist-info")
    paths = [*zips(packages / "pyspark"), str(packages)]
    prefer_folders(paths)
    assert paths == [*zips(packages / "pyspark")[1:], str(packages)]


@pytest.mark.parametrize("lacking", ["folder", "path", "name"])
def test_zips_stay_where_the_folder_would_not_be_imported(packages: Path, lacking: str) -> None:
    home = packages / "pyspark"
    if lacking == "folder":
        (home / "__init__.py").unlink()
    if lacking == "name":  # a Spark that was unpacked
        home = home.rename(packages / "spark-4.2.0")
    paths = [*zips(home), *([] if lacking == "path" else [str(packages)])]
    before = list(paths)
    prefer_folders(paths)
    assert paths == before


def started(spark_paths: list[str]) -> list[str]:
    """Return what a Python finds that Spark starts, with the file beside its packages: pyspark, py4j, its path."""
    code = (
        "import sys; exec(open(sys.argv[1]).read()); import pyspark, py4j;"
        "print(pyspark.__file__, py4j.__file__, *sys.path, sep='\\n')"
    )
    root = str(Path(pyspark_folder.__file__).parents[2])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*spark_paths, root])}
    command = [sys.executable, "-c", code, str(PATHS)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=60)
    assert not done.stderr
    return done.stdout.splitlines()


def test_a_process_of_spark_imports_from_the_folders() -> None:
    assert len(ZIPS) == 2
    spark, bridge, *paths = started(ZIPS)
    assert (spark, bridge) == (pyspark.__file__, py4j.__file__)
    assert not set(paths) & set(ZIPS)


def test_a_process_without_zips_is_left_alone() -> None:
    assert pyspark.__file__ in started([])


def test_the_file_is_one_line_that_python_runs() -> None:
    (line,) = PATHS.read_text(encoding="utf-8").splitlines()
    assert line.startswith("import ")
