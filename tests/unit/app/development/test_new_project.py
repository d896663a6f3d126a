"""``connectrt new``: what it writes runs, passes its own tests, and takes the place of nothing."""

from __future__ import annotations

import inspect
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from spark_connect_rt.app.cli import cli
from spark_connect_rt.app.development.new_project import (
    class_name,
    create_project,
    create_worker_file,
    module_name,
    name_problem,
    project_files,
)
from spark_connect_rt.app.settings_file import read_settings
from spark_connect_rt.engine.process_plugins import distributed_config
from spark_connect_rt.errors import BadRequestError
from tools.prose.measures import rules, violations
from tools.prose.texts import python_texts


@pytest.fixture(autouse=True)
def _clean_imports() -> Iterator[None]:
    path = list(sys.path)
    yield
    sys.path[:] = path
    for name in [name for name in sys.modules if name.startswith("first_hour")]:
        del sys.modules[name]


@pytest.mark.parametrize(("kind", "shown"), [("source", 3), ("sink", 3)])
def test_a_new_project_runs_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, shown: int) -> None:
    monkeypatch.chdir(tmp_path)
    made = CliRunner().invoke(cli, ["new", kind, "first-hour"])
    assert made.exit_code == 0, made.output
    assert "  connectrt dev first-hour/connector.json    # runs it" in made.output
    ran = CliRunner().invoke(cli, ["dev", "first-hour/connector.json", "--once"])
    assert ran.exit_code == 0, ran.output
    assert ran.output.count("first-hour-0@") == shown
    assert "would commit" in ran.output


@pytest.mark.parametrize("kind", ["source", "sink"])
def test_the_tests_of_a_new_project_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    create_project(kind, "first-hour", tmp_path / "made")
    monkeypatch.syspath_prepend(str(tmp_path / "made"))
    tests: dict[str, Any] = {"__name__": "first_hour_tests"}
    exec(compile((tmp_path / "made/test_first_hour.py").read_text(), "test_first_hour.py", "exec"), tests)
    found = [test for name, test in tests.items() if name.startswith("test_")]
    assert len(found) >= 2
    for number, test in enumerate(found):
        folder = tmp_path / str(number)
        folder.mkdir()
        test(**({"tmp_path": folder} if inspect.signature(test).parameters else {}))


@pytest.mark.parametrize("kind", ["source", "sink"])
def test_a_wheel_of_a_new_project_is_found_as_a_plug_in(kind: str) -> None:
    files = project_files(kind, "my-orders")
    project = tomllib.loads(files["pyproject.toml"])
    connector = f"MyOrders{kind.capitalize()}"
    group = f"spark_connect_rt.{kind}_connectors"
    assert project["project"]["entry-points"] == {group: {connector: f"my_orders:{connector}"}}
    assert project["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"] == ["my_orders.py"]
    assert f"class {connector}({kind.capitalize()}Connector):" in files["my_orders.py"]
    assert f'"connector.class": "{connector}"' in files["connector.json"]


@pytest.mark.parametrize("kind", ["source", "sink"])
def test_generated_project_keeps_the_rules_of_this_repository(kind: str) -> None:
    for name, text in project_files(kind, "orders").items():
        assert not name.endswith(".py") or violations(rules(), [], python_texts(name, text)) == []
        assert max(map(len, text.splitlines())) <= 120
        assert "$" not in text


def test_names_become_modules_and_classes() -> None:
    assert module_name("My-orders") == "my_orders"
    assert [class_name("source", name) for name in ("orders", "my_orders", "orders-source")] == [
        "OrdersSource",
        "MyOrdersSource",
        "OrdersSource",
    ]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("1st", "not a valid name"),
        ("a b", "not a valid name"),
        ("../x", "not a valid name"),
        ("json", "module json exists already"),
        ("class", "module class exists already"),
        ("pyarrow", "module pyarrow exists already"),
    ],
)
def test_a_name_that_python_could_not_import_is_refused(name: str, words: str) -> None:
    assert words in (name_problem(name) or "")
    with pytest.raises(BadRequestError):
        create_project("source", name)


def test_a_folder_that_holds_something_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    refused = CliRunner().invoke(cli, ["new", "source", "orders", "--folder", str(tmp_path)])
    assert refused.exit_code == 1
    assert "exists and is not empty" in refused.output
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_connector_file_that_is_not_there_ends_dev_at_once(tmp_path: Path) -> None:
    refused = CliRunner().invoke(cli, ["dev", str(tmp_path / "none.json")])
    assert refused.exit_code == 14
    assert "none.json: is not a file" in refused.output


def test_a_new_worker_file_is_complete_and_fits_a_single_broker(tmp_path: Path) -> None:
    made = CliRunner().invoke(cli, ["new", "worker", "shop", "--folder", str(tmp_path / "etc")])
    assert made.exit_code == 0, made.output
    file = tmp_path / "etc" / "shop.properties"
    assert f"connectrt worker {file}" in made.output
    config = distributed_config(read_settings(file))
    assert config.group.group_id == "shop"
    assert {topic.replication_factor for topic in config.storage.values()} == {1}
    assert not config.warnings
    with pytest.raises(BadRequestError, match="exists"):
        create_worker_file("shop", tmp_path / "etc")
    with pytest.raises(BadRequestError, match="not a valid name"):
        create_worker_file("../shop", tmp_path)
