"""format("connectrt") where nothing of it is installed: shipped with a job, on a local cluster."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sysconfig
import venv
from pathlib import Path

import pyspark

from spark_connect_rt.engine.startup.java_home import Java

JOB = """
import json
import sys
import spark_connect_rt
from pyspark.sql import SparkSession
from pyspark_connectrt import DefaultSource

spark = SparkSession.builder.getOrCreate()
spark.dataSource.register(DefaultSource)
source = {"connector.class": "FileStreamSource", "file": sys.argv[1], "topic": "t", "value.converter": sys.argv[3]}
sink = {"connector.class": "FileStreamSink", "file": sys.argv[2], "topic": "t"}
lines = spark.read.format("connectrt").options(**source).option("until", "latest").load().selectExpr("string(value)")
lines.coalesce(1).write.format("connectrt").mode("append").options(**sink).save()
stream = spark.readStream.format("connectrt").options(**source).load().selectExpr("string(value)")
query = stream.writeStream.format("memory").queryName("streamed").trigger(availableNow=True).start()
query.awaitTermination(240)
print(json.dumps([spark_connect_rt.__file__, [row.value for row in spark.table("streamed").collect()]]))
"""


def test_a_job_brings_the_format_along(java: Java, tmp_path: Path, wheel: Path) -> None:
    archive = str(shutil.copy(wheel, tmp_path / "connectrt.zip"))  # as docs/howto/format.md has it
    job, lines, written = tmp_path / "job.py", tmp_path / "lines.txt", tmp_path / "written.txt"
    job.write_text(JOB)
    lines.write_text("one\ntwo\n")
    venv.create(tmp_path / "bare")
    python = str(tmp_path / "bare" / "bin" / "python")
    spark = Path(pyspark.__file__).parent
    own = {
        "SPARK_HOME": str(spark),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "JAVA_HOME": str(java.home),
        "PYSPARK_PYTHON": python,
        "PYSPARK_DRIVER_PYTHON": python,
        # all but this project, whose .pth file is not followed there
        "PYTHONPATH": os.pathsep.join((archive, sysconfig.get_path("purelib"))),
    }
    words = [str(spark / "bin" / "spark-submit"), "--master", "local-cluster[1,1,1024]", "--py-files", archive]
    words += ["--conf", "spark.ui.enabled=false", str(job), str(lines), str(written)]
    words += ["org.apache.kafka.connect.storage.StringConverter"]
    done = subprocess.run(
        words, env=os.environ | own, cwd=tmp_path, capture_output=True, text=True, timeout=400, check=False
    )
    assert done.returncode == 0, "\n".join(line for line in done.stderr.splitlines() if " INFO " not in line)
    module, streamed = json.loads(done.stdout.splitlines()[-1])
    assert "connectrt.zip" in module
    assert streamed == ["one", "two"]
    assert written.read_text() == "one\ntwo\n"
