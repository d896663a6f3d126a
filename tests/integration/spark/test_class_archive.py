"""Spark's JVM maps the archive of classes that the environment was prepared with; for another Java there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_connect_rt.engine.class_archive_command import end_jvm, rehearse
from spark_connect_rt.engine.driver.spark_session import build_session
from spark_connect_rt.engine.startup.java_home import Java
from spark_connect_rt.engine.startup.ml_functions import LOADER
from spark_connect_rt.engine.startup.session_conf import (
    JAVA_OPTIONS,
    archive_option,
    archive_path,
    classes_path,
    session_conf,
)


def test_the_jvm_maps_the_archive_of_the_prepared_environment(java: Java, tmp_path: Path) -> None:
    path = archive_path(java.home)
    assert path.is_file(), "./spark-submit.sh --environment dev makes it"
    session = build_session({"spark.master": "local[2]"})
    gateway = session.sparkContext._gateway
    assert gateway is not None
    jvm = gateway.proc.pid
    try:
        mapped = Path(f"/proc/{jvm}/maps").read_text(encoding="utf-8")
        assert str(path) in mapped
        rehearse(session, tmp_path)
        prepared = classes_path()
        assert prepared is not None
        made, compiled = ((folder / f"{LOADER}.class").read_bytes() for folder in (prepared, tmp_path))
        assert made == compiled
    finally:
        assert end_jvm(session) is not None
    assert not Path(f"/proc/{jvm}").exists()


def test_another_java_has_no_archive(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    (tmp_path / "release").write_text('JAVA_VERSION="99"')
    assert archive_option() == ""
    assert classes_path() == archive_path(tmp_path).with_suffix("")
    assert "SharedArchiveFile" not in session_conf({})[JAVA_OPTIONS]
    known = archive_path(tmp_path)
    (tmp_path / "release").write_text('JAVA_VERSION="100"')
    assert archive_path(tmp_path) != known


@pytest.mark.parametrize(
    "given", [{JAVA_OPTIONS: "-Xmx1g"}, {"spark.master": "local-cluster[2,1,1024]"}, {"spark.master": "yarn"}]
)
def test_only_a_local_master_with_our_own_options_gets_it(given: dict[str, str]) -> None:
    assert "SharedArchiveFile" not in session_conf(given)[JAVA_OPTIONS]
