"""Where the jar of the Java host is: in a wheel that is installed, and in one that nobody has unpacked."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from spark_connect_rt.engine.java_host import jar as jars
from spark_connect_rt.engine.java_host.jar import packaged_jar


def test_an_installed_one_is_taken_where_it_is(tmp_path: Path) -> None:
    assert packaged_jar(tmp_path) is None
    (tmp_path / "java-host.jar").write_bytes(b"classes")
    assert packaged_jar(tmp_path) == tmp_path / "java-host.jar"


def test_one_in_a_zip_is_copied_once_for_a_jvm_reads_files_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jars, "cache_directory", lambda: tmp_path / "cache")
    wheel = tmp_path / "some.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("package/java-host.jar", b"classes")
        archive.writestr("other/__init__.py", b"")
    copy = packaged_jar(zipfile.Path(wheel, "package/"))
    assert copy is not None
    assert copy.read_bytes() == b"classes"
    assert packaged_jar(zipfile.Path(wheel, "package/")) == copy
    assert [path.name for path in copy.parent.glob("*.jar")] == [copy.name]
    assert packaged_jar(zipfile.Path(wheel, "other/")) is None
