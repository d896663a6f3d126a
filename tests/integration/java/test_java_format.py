"""The Java sources are written as google-java-format writes them."""

from __future__ import annotations

from pathlib import Path

from tests.support.java_format import run, sources


def test_every_java_file_is_formatted() -> None:
    done = run(sources(), "--dry-run")
    assert (done.returncode, done.stdout) == (0, ""), f"python -m tests.support.java_format {done.stderr}"


def test_the_check_finds_a_file_that_is_not(tmp_path: Path) -> None:
    (tmp_path / "A.java").write_text("class A{int a  ;}\n")
    assert run([tmp_path / "A.java"], "--dry-run").stdout.split() == [str(tmp_path / "A.java")]
