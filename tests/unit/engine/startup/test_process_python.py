"""Which Python Spark's processes run: this one, reading pyspark from its folder where it lies in one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import py4j
import pyspark
import pytest

import pyspark_connectrt
from spark_connect_rt.engine.startup.process_python import STARTER, imported_from_folders, use_this_python

HOME = Path(pyspark.__file__).parent


def test_a_local_spark_reads_pyspark_from_its_folder() -> None:
    environment: dict[str, str] = {}
    use_this_python(environment, local=True)
    assert environment == {"PYSPARK_PYTHON": str(STARTER), "CONNECTRT_PYTHON": sys.executable}


@pytest.mark.parametrize(
    ("given", "local", "python"),
    [
        ({"PYSPARK_PYTHON": "/opt/python"}, True, "/opt/python"),
        ({}, False, sys.executable),
        ({"SPARK_HOME": "/opt/spark"}, True, sys.executable),
        ({"SPARK_HOME": str(HOME)}, True, str(STARTER)),
    ],
)
def test_python_of_the_environment_is_kept_and_remote_executors_get_the_interpreter(
    given: dict[str, str], local: bool, python: str
) -> None:
    environment = dict(given)
    use_this_python(environment, local)
    assert environment["PYSPARK_PYTHON"] == python
    use_this_python(environment, local)
    assert environment["PYSPARK_PYTHON"] == python, "a second time changes nothing"


def test_a_session_of_ones_own_may_have_the_starter() -> None:
    environment: dict[str, str] = {}
    assert pyspark_connectrt.use_bytecode(environment)
    assert environment == {"PYSPARK_PYTHON": str(STARTER), "CONNECTRT_PYTHON": sys.executable}
    other = {"PYSPARK_PYTHON": "/other/python"}
    assert not pyspark_connectrt.use_bytecode(other)
    assert other == {"PYSPARK_PYTHON": "/other/python"}


def test_modules_in_a_zip_are_left_there() -> None:
    bridge = Path(py4j.__file__).parent
    assert not imported_from_folders(None, (None, bridge))
    assert not imported_from_folders(None, (HOME, None))
    assert imported_from_folders(None, (HOME, bridge))
    assert imported_from_folders(None)


def test_the_starter_drops_spark_s_zips_alone_and_hands_everything_on(tmp_path: Path) -> None:
    strange = tmp_path / "with a space"
    strange.mkdir()
    zips = [str(path) for path in (HOME / "python/lib").glob("*.zip")]
    assert len(zips) == 2
    code = "import sys, os, pyspark; print(sys.argv[1:], os.environ['PYTHONPATH'], pyspark.__file__, sys.executable)"
    found = subprocess.run(
        [str(STARTER), "-c", code, "a b", "$c"],
        env={
            "PYTHONPATH": ":".join([*zips, str(strange), "/spark/jars/spark-core.jar"]),
            "SPARK_HOME": str(HOME),
            "CONNECTRT_PYTHON": sys.executable,
        },
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout.strip()
    assert found == f"['a b', '$c'] {strange}:/spark/jars/spark-core.jar {pyspark.__file__} {sys.executable}"


def test_planning_a_slice_imports_nothing_that_runs_in_one() -> None:
    code = (
        "import sys, spark_connect_rt.engine.executor.datasource, pyspark_connectrt;"
        "assert pyspark_connectrt.DefaultSource.name() == 'connectrt';"
        "print([one for one in ('pyarrow', 'numpy', 'confluent_kafka', 'spark_connect_rt.records.pipeline',"
        " 'spark_connect_rt.engine.executor.reader_side') if one in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60).stdout
    assert found.strip() == "[]"


def test_planning_a_stream_of_a_topic_imports_nothing_that_reads_or_writes() -> None:
    code = (
        "import sys, pyspark_connectrt; from pyspark.sql.types import BinaryType, StructType;"
        "options = {'connector.class': 'KafkaSource', 'source.bootstrap.servers': 'nowhere:1', 'topics': 't',"
        " 'columns': 'value'} | {f'{one}.converter': 'org.apache.kafka.connect.converters.ByteArrayConverter'"
        " for one in ('key', 'value', 'header')};"
        "source = pyspark_connectrt.DefaultSource(options); assert source.schema() == 'value binary';"
        "assert source.streamReader(StructType().add('value', BinaryType()));"
        "print([one for one in ('aiokafka', 'pandas', 'pyarrow.compute',"
        " 'spark_connect_rt.records.pipeline.source_pipeline', 'spark_connect_rt.records.transforms.column_forms',"
        " 'spark_connect_rt.engine.datasource.open_task',"
        " 'spark_connect_rt.engine.datasource.row_writer') if one in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60).stdout
    assert found.strip() == "[]"
