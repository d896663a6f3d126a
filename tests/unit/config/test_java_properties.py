"""The syntax of Java properties files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from spark_connect_rt.app.settings_file import read_settings
from spark_connect_rt.app.standalone import read_connector_file
from spark_connect_rt.cli.files import documents_of
from spark_connect_rt.config.java_properties import load_properties, parse_properties
from spark_connect_rt.errors import BadConfigError
from spark_connect_rt.plugins.config_providers import FileConfigProvider


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("a=1\nb: 2\nc 3\nd", {"a": "1", "b": "2", "c": "3", "d": ""}),
        ("# no\n! no\n\n  a = x y \n", {"a": "x y "}),
        ("a=1,\\\n   2\nb=\\\\\nc=3", {"a": "1,2", "b": "\\", "c": "3"}),
        ("a\\ b\\==\\u00e9\\t\\q", {"a b=": "é\tq"}),
        ("e=\\ud83d\\ude00", {"e": "😀"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=1\na=2", {"a": "2"}),
        ("a==b", {"a": "=b"}),
        ("a=1\\", {"a": "1"}),
        ("a=b#c", {"a": "b#c"}),
        ("x=1\\\n# not a comment", {"x": "1# not a comment"}),
        ("", {}),
    ],
)
def test_grammar(text: str, settings: dict[str, str]) -> None:
    assert parse_properties(text) == settings


def test_a_broken_escape_names_file_and_line(tmp_path: Path) -> None:
    file = tmp_path / "w.properties"
    file.write_text("a=1\nb=\\u12\n")
    with pytest.raises(BadConfigError) as caught:
        load_properties(file)
    assert list(caught.value.problems) == [f"{file} line 2"]


def test_files_are_utf8_or_else_latin1(tmp_path: Path) -> None:
    file = tmp_path / "w.properties"
    file.write_bytes("a=é".encode())
    assert load_properties(file) == {"a": "é"}
    file.write_bytes("a=é".encode("latin-1"))
    assert load_properties(str(file)) == {"a": "é"}


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadConfigError, match=r"nothing here.*cannot be read: No such file"):
        load_properties(tmp_path / "nothing here")


def test_a_setting_that_appears_twice_is_named_with_its_lines() -> None:
    found = parse_properties("a=1\nb=2\n\na:\\\n 3\n# c\nc=1\na 4\n")
    assert (found, found.repeated) == (
        {"a": "4", "b": "2", "c": "1"},
        ("a is set more than once, in lines 1, 4 and 8. The last line is used. Remove the others.",),
    )


@pytest.mark.parametrize(
    "read",
    [
        read_settings,
        read_connector_file,
        lambda file: documents_of(file.read_text(), str(file)),
        lambda file: FileConfigProvider().get(str(file)),
    ],
)
def test_every_reader_of_files_warns_once_of_a_repeated_setting(
    read: Callable[[Path], object], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "twice.properties"
    file.write_text("name=a\ntopics=x\nconnector.class=C\ntopics=y\n")
    read(file)
    read(file)
    (warning,) = (record.getMessage() for record in caplog.records)
    assert warning.startswith(f"{file}: topics is set more than once, in lines 2 and 4")
