"""When Spark's JVM starts by the command of an earlier start, and what it is given then."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from spark_connect_rt.engine.startup.gateway import (
    HOME,
    RECORD,
    STARTER,
    as_argument_file,
    is_plain,
    keep_command,
    options_of,
    record_path,
    use_record,
)
from spark_connect_rt.engine.startup.session_conf import JAVA_OPTIONS

KNOWN = {JAVA_OPTIONS: "-XX:+UseSerialGC", "spark.speculation": "false"}
CONF = {**KNOWN, "spark.master": "local[64]", "spark.sql.shuffle.partitions": "9"}
SUBMITTED = [
    "java",
    "-cp",
    "/s/jars/*",
    "-XX:+UseSerialGC",
    "-Xshare",
    "--add-opens=a",
    "org.apache.spark.deploy.SparkSubmit",
    "x",
]


@pytest.mark.parametrize(
    ("conf", "environment", "plain"),
    [
        ({}, {}, True),
        ({JAVA_OPTIONS: "-XX:+UseSerialGC -XX:SharedArchiveFile=/a"}, {"PATH": "/bin", "JAVA_HOME": "/java"}, True),
        ({JAVA_OPTIONS: "-Xmx2g"}, {}, False),
        ({JAVA_OPTIONS: "-XX:+UseSerialGC '-Da=b c'"}, {}, False),
        ({JAVA_OPTIONS: '-XX:+UseSerialGC -Da="b c"'}, {}, False),
        ({"spark.jars.packages": "a:b:1"}, {}, False),
        ({"spark.driver.memory": "4g"}, {}, False),
        ({"spark.hadoop.fs.s3a.endpoint": "x"}, {}, False),
        ({}, {"PYSPARK_SUBMIT_ARGS": "--jars a.jar pyspark-shell"}, False),
        ({}, {"SPARK_CONF_DIR": "/etc/spark"}, False),
        ({}, {"SPARK_HOME": "/opt/spark"}, False),
        ({}, {"HADOOP_CONF_DIR": "/etc/hadoop"}, False),
    ],
)
def test_command_that_spark_submit_would_change_is_left_to_it(
    conf: dict[str, str], environment: dict[str, str], plain: bool, tmp_path: Path
) -> None:
    assert is_plain({**CONF, **conf}, KNOWN, environment, tmp_path) is plain
    assert is_plain({**CONF, **conf}, KNOWN, {**environment, "SPARK_HOME": str(tmp_path)}, tmp_path) is (
        plain or "SPARK_HOME" in environment
    )


@pytest.mark.parametrize("name", ["spark-defaults.conf", "spark-env.sh", "java-opts"])
def test_a_configured_installation_is_left_to_spark_submit(name: str, tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    assert is_plain(CONF, KNOWN, {}, tmp_path)
    (tmp_path / "conf" / name).touch()
    assert not is_plain(CONF, KNOWN, {}, tmp_path)


def test_options_are_kept_without_our_own() -> None:
    conf = {JAVA_OPTIONS: "-XX:+UseSerialGC -Xshare"}
    assert options_of(SUBMITTED, conf) == ["-cp", "/s/jars/*", "--add-opens=a"]
    assert options_of(["python", "-m", "x"], conf) is None


def test_no_java_no_record() -> None:
    assert record_path({}) is None


def test_a_record_of_another_spark_or_none_is_not_used(tmp_path: Path) -> None:
    environment: dict[str, str] = {}
    record = tmp_path / "kept.args"
    assert not use_record(environment, record, Path("/s"))
    record.write_text(as_argument_file(["-cp", "/s/jars/*"]))
    assert not use_record(environment, record, Path("/other"))
    assert environment == {}
    assert use_record(environment, record, Path("/s"))
    assert environment == {RECORD: str(record), HOME: "/s"}


def test_command_that_cannot_be_kept_stops_nothing(tmp_path: Path) -> None:
    keep_command(os.getpid(), CONF, tmp_path / "kept.args")  # no JVM of Spark's
    keep_command(2**22 + 1, CONF, tmp_path / "kept.args")  # no process
    assert list(tmp_path.iterdir()) == []


def test_the_starter_gives_java_our_options_and_every_setting_as_it_is(tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text('#!/bin/sh\nfor one; do echo "$one"; done; echo "$SPARK_HOME $PYTHONHASHSEED"\n')
    java.chmod(0o755)
    settings = [f"{JAVA_OPTIONS}=-Xa -Xb=*", "spark.app.name=with  spaces", "spark.x=$HOME 'q'"]
    given = [word for setting in settings for word in ("--conf", setting)]
    shown = subprocess.run(
        [str(STARTER), *given, "pyspark-shell"],
        env={"JAVA_HOME": str(tmp_path), RECORD: "/a b/kept.args", HOME: "/s", "PATH": os.defpath},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout.splitlines()
    assert shown[:3] == ["-Xa", "-Xb=*", "@/a b/kept.args"]
    assert shown[3:6] == [f"-D{setting}" for setting in settings]
    assert shown[-2:] == ["org.apache.spark.api.python.PythonGatewayServer", "/s 0"]
