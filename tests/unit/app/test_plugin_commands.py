"""``connectrt plugins search|describe|docs|install``: what can be copied, read, put on a page or given to a program."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from spark_connect_rt.app.cli import cli
from spark_connect_rt.engine import class_archive_command as class_archive
from spark_connect_rt.errors import StartupError
from spark_connect_rt.operations.plugin_install import actions
from spark_connect_rt.operations.plugin_install.actions import FoundPlugin, settings_page
from tests.unit.operations.plugin_install.archives import plugin_zip

LONG = "org.example.of.a.group:kafka-connect-of-a-name-that-is-longer-than-a-terminal-is-wide:12.34.56"


def ask(*words: str) -> Result:
    return CliRunner().invoke(cli, ["plugins", *words], env={"COLUMNS": "80"})


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> list[FoundPlugin]:
    """What Maven Central finds."""
    found: list[FoundPlugin] = []
    monkeypatch.setattr(actions, "maven_central", lambda _words: found)
    return found


@pytest.fixture
def file(tmp_path: Path) -> str:
    (tmp_path / "worker.properties").write_text("bootstrap.servers=x:1\n")
    return str(tmp_path / "worker.properties")


def test_a_coordinate_that_was_found_can_be_copied(index: list[FoundPlugin]) -> None:
    index += [FoundPlugin("g:a:1", "source: short ones"), FoundPlugin(LONG, "[bold]jar")]
    found = ask("search", "two", "words")
    assert found.exit_code == 0
    assert found.output.splitlines() == [
        f"{'g:a:1':{len(LONG)}}  source: short ones",
        f"{LONG}  [bold]jar",
        "found by Maven Central's search",
    ]
    assert json.loads(ask("search", "a", "--json").output)["plugins"][1] == {"coordinate": LONG, "about": "[bold]jar"}


def test_a_coordinate_of_an_unknown_version_says_where_one_belongs(index: list[FoundPlugin]) -> None:
    index += [FoundPlugin("g:a", "sink: x")]
    assert ask("search", "x").output.splitlines()[0] == "g:a:VERSION  sink: x"
    assert json.loads(ask("search", "x", "--json").output)["plugins"][0]["coordinate"] == "g:a"


def test_nothing_found_is_an_exit_code(index: list[FoundPlugin]) -> None:
    nothing = ask("search", "no such thing")
    assert (nothing.exit_code, nothing.output) == (1, "found by Maven Central's search\n")


def test_the_settings_of_a_plugin_as_a_page_a_table_and_json(file: str) -> None:
    page = ask("docs", "FileStreamSource", "--file", file)
    assert page.exit_code == 0, page.output
    assert page.output.startswith("# FileStreamSource\n\n| setting | type |")
    assert "\n| `topic` | STRING | required | HIGH | " in page.output
    table = ask("describe", "FileStreamSource", "--file", file)
    assert "│ topic " in table.output
    keys = {row["name"]: row for row in json.loads(ask("describe", "FileStreamSource", "-f", file, "--json").output)}
    assert (keys["topic"]["required"], keys["file"]["default_value"]) == (True, None)


def test_install_makes_the_first_start_cheaper_or_says_that_it_does_not(
    tmp_path: Path, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared: list[list[Path]] = []
    folder = ["--file", file, "--set", f"connectrt.plugins.directory={tmp_path / 'installed'}"]
    monkeypatch.setattr(class_archive, "make_host_archive", prepared.append)
    assert ask("install", str(plugin_zip(tmp_path / "one-1.0.zip")), *folder).exit_code == 0
    assert [[place.name for place in places] for places in prepared] == [["one-1.0"]]

    def fail(places: list[Path]) -> Path:
        raise StartupError("there is no Java", exit_code=11)

    monkeypatch.setattr(class_archive, "make_host_archive", fail)
    done = ask("install", str(plugin_zip(tmp_path / "one-2.0.zip")), *folder)
    assert done.exit_code == 0, "it is installed all the same"
    assert "its first start will take longer" in done.output
    assert "there is no Java" in done.output


@pytest.mark.parametrize(
    ("words", "made"),
    [
        ([], ["spark"]),
        (["--java"], ["spark", "hosts of []"]),
        (["--plugin-path", "PLACE"], ["spark", "hosts of []", "hosts of ['one']"]),
    ],
)
def test_archives_of_classes_are_sparks_and_when_asked_for_those_of_java_hosts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], made: list[str]
) -> None:
    for name, jar in (("one", "a.jar"), ("python", "a.py")):
        (tmp_path / name).mkdir()
        (tmp_path / name / jar).write_bytes(b"PK")
    monkeypatch.setattr(class_archive, "make_class_archive", lambda: "spark")

    def hosts(places: Sequence[Path] = ()) -> str:
        return f"hosts of {[place.name for place in places]}"

    monkeypatch.setattr(class_archive, "make_host_archive", hosts)
    done = CliRunner().invoke(cli, ["class-archive", *(word.replace("PLACE", str(tmp_path)) for word in words)])
    assert (done.exit_code, done.output.splitlines()) == (0, made)


def test_a_name_that_nothing_has_is_reported(file: str) -> None:
    for word in ("docs", "describe"):
        done = ask(word, "NoSuchPlugin", "--file", file)
        assert done.exit_code != 0
        assert "NoSuchPlugin" in done.output


def test_a_page_has_required_ones_first_and_its_cells_hold_together() -> None:
    def key(name: str, importance: str, required: bool = False, text: str | None = "") -> dict[str, object]:
        told = {"name": name, "type": "STRING", "required": required, "default_value": None}
        return {**told, "importance": importance, "documentation": text}

    keys = [key("a", "LOW"), key("b", "HIGH", text="one|\ntwo"), key("c", "LOW", required=True), key("d", "HIGH")]
    rows = settings_page("P", keys).splitlines()[4:]
    assert [row.split("`")[1] for row in rows] == ["c", "b", "d", "a"]
    assert rows[1].endswith("| one\\| two |")
