"""Every code block of the how-to pages, tutorials and README is checked, or stands in a table here with the reason.

How far a check goes depends on the kind of block:

- Connector configurations (JSON, properties, bodies of requests): validated as ``PUT .../config/validate`` does it,
  with the real ConfigDef of the class. No error, and no setting that nothing reads. Nothing is reached.
- Worker settings: parsed as a worker parses its file; no error, no unknown setting.
- ``connectrt`` commands: parsed by the real command line, so every word, argument and option exists. tests/e2e/
  page_stories.py runs those of the how-to pages and README, tests/unit/app/development those of the tutorial.
- ``curl``: method, path and query parameters are operations of the REST API; a body is JSON. The same story sends them.
- Other commands: their files exist in this repository.
- TOML and YAML: parsed; groups of entry points exist. tests/unit/rest/test_alert_rules.py reads the rules for alerts.
- Python: executed. ``PYTHON`` says by which test; those of errant_records.md and dlt.md by this one.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
import textwrap
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml
from typer.main import get_command

from spark_connect_rt.api.connector import SinkConnector
from spark_connect_rt.api.task import SinkTask
from spark_connect_rt.app.cli import cli
from spark_connect_rt.app.rest.openapi import OPERATIONS
from spark_connect_rt.config.config_def import ConfigDef
from spark_connect_rt.config.java_properties import parse_properties
from spark_connect_rt.config.unread_settings import unread_settings
from spark_connect_rt.config.worker_settings import parse_distributed
from spark_connect_rt.plugins.bundled_plugins import BUNDLED
from spark_connect_rt.plugins.plugin_desc import GROUPS
from spark_connect_rt.plugins.registry import Plugins
from spark_connect_rt.runtime.herder.dependencies import HerderDependencies
from spark_connect_rt.runtime.herder.validation import validated
from spark_connect_rt.testing.in_process_cluster import InProcessCluster
from spark_connect_rt.testing.sink_harness import SinkHarness
from spark_connect_rt.testing.worker_settings import LEAST
from tests.e2e.page_stories import ENDS, LEFT_OUT, commands_of
from tests.e2e.page_stories import PAGES as STORY_PAGES
from tests.support.code_blocks import Block, blocks_of, commands_in

ROOT = Path(__file__).parents[2]
PAGES = (
    *sorted(page for kind in ("howto", "tutorial") for page in (ROOT / f"docs/{kind}").glob("*.md")),
    ROOT / "README.md",
)
BLOCKS = [block for page in PAGES for block in blocks_of(page)]

UNCHECKED = {
    ("first_connector.md", "--- orders.py changed: reloading"): "output, which test_first_connector.py compares",
    ("format.md", "topic string, partition int"): "columns, which tests/integration/spark/test_format.py reads",
    ("format.md", "[DATA_SOURCE_NOT_FOUND]"): "Spark's own message",
    ("java_connectors.md", "/opt/plugins/debezium-connector-postgres/*.jar"): "a listing of folders",
    ("sql.md", "table.name.format: topic srv.public.orders results"): "a message; tests/unit/connectors has its words",
}
"""(page, beginning of the first line) -> why a block is neither run nor checked."""

PYTHON = {
    "first_connector.md": "tests/unit/app/development/test_first_connector.py",
    "connector_columns.md": "tests/unit/testing/test_connector_harness.py",
    "test_a_connector.md": "tests/unit/testing/test_connector_harness.py",
    "write_a_connector.md": "tests/unit/testing/test_connector_harness.py",
    "write_a_sink.md": "tests/unit/testing/test_connector_harness.py",
    "README.md": "tests/unit/test_code_blocks.py",
    "format.md": "tests/integration/spark/test_format.py",
    "dlt.md": "tests/unit/test_code_blocks.py",
    "errant_records.md": "tests/unit/test_code_blocks.py",
}
"""Page -> the test that executes its Python blocks."""

PROGRAMS = {
    "source": "the shell's",
    "spark-class": "Apache Spark's own tool",
    "alias": "the shell's",
    "cat": "the shell's",
    "export": "the shell's",
    "kafka-configs.sh": "Apache Kafka's own tool",
    "kill": "the shell's",
    "mv": "the shell's",
    "pip": "installs from a package index",
    "pytest": "runs tests of the reader",
    "ulimit": "the shell's",
}
"""Program -> why its arguments are not checked."""

CLUSTERS = ("spark-submit", "./spark-submit.sh", "./test.sh", "./bench.sh", "python", "PYTHONPATH=ship/connectrt.zip")
"""What needs Spark or a cluster: only the files of this repository that it names are looked for. The system tests
(tests/e2e/test_spark_submit.py, test_spark_cluster.py, test_yarn.py, test_quickstart.py) run such commands."""

ABSENT = {"lakeflow.class": "No module named 'databricks'", "dlt.source": "No module named 'my_source'"}
"""Setting -> what validation says of it because something is not installed here."""

OUTSIDE_THE_DESCRIPTION = {
    ("GET", "/admin/metrics"): "text for Prometheus, tested by tests/unit/rest/test_reads.py",
    ("GET", "/admin/overview/stream"): "events, tested by tests/unit/rest/test_overview.py",
}

_COMMAND_LINE = get_command(cli)
SOURCE = {"connector.class": "FileStreamSource", "file": "in.txt", "topic": "lines"}


def kind_of(block: Block) -> str:
    """Return how a block is checked: by its language, else by its first line."""
    if any((page, block.first.startswith(first)) == (block.page, True) for page, first in UNCHECKED):
        return "unchecked"
    if block.language in ("python", "json", "toml", "yaml"):
        return block.language
    is_settings = all(re.match(r"[a-z][\w.-]*=|#|\s|$", line) for line in block.text.split("\n"))
    if block.first.startswith('"'):
        return "fragment"
    return "properties" if is_settings else "shell"


def of_kind(*kinds: str) -> list[Any]:
    found = [block for block in BLOCKS if kind_of(block) in kinds]
    return [pytest.param(block, id=f"{block.page}:{block.line}") for block in found]


@pytest.fixture(scope="module")
def deps() -> Iterator[HerderDependencies]:
    with InProcessCluster() as cluster:
        yield replace(cluster.add_worker().herder._deps, plugins=Plugins(BUNDLED))


def check_connector(deps: HerderDependencies, config: Mapping[str, Any]) -> None:
    """Validate a configuration as REST does, and find settings without effect."""
    named = {"name": "page", **{name: str(value) for name, value in config.items()}}
    infos = validated(deps, named)
    problems = {name: found for name, found in infos.problems().items() if ABSENT.get(name, "-") not in found[0]}
    assert problems == {}
    unread = unread_settings(named, infos.declared(), declares_all=True)
    assert [setting.sentence() for setting in unread] == []


@pytest.mark.parametrize("block", of_kind("json", "fragment"))
def test_connectors_in_json_are_valid(deps: HerderDependencies, block: Block) -> None:
    text = block.text if kind_of(block) == "json" else f"{{{block.text}}}"
    configs, rest = [], text.strip()
    while rest:
        config, end = json.JSONDecoder().raw_decode(rest)
        configs.append(config)
        rest = rest[end:].strip()
    for config in configs:
        check_connector(deps, config if "connector.class" in config else {**SOURCE, **config})


@pytest.mark.parametrize("block", of_kind("properties"))
def test_settings_of_connectors_and_workers_are_valid(deps: HerderDependencies, block: Block) -> None:
    settings = parse_properties(block.text)
    if "connector.class" in settings:
        check_connector(deps, settings)
    elif "group.id" not in settings and any(name.startswith("value.converter") for name in settings):
        check_connector(deps, {**SOURCE, **settings})
    else:
        assert list(parse_distributed({**LEAST, **settings}).warnings) == []


@pytest.mark.parametrize("block", of_kind("toml"))
def test_entry_points_are_in_groups_of_plug_ins(block: Block) -> None:
    groups = tomllib.loads(block.text)["project"]["entry-points"]
    assert set(groups) <= set(GROUPS)


@pytest.mark.parametrize("block", [given for given in of_kind("yaml") if given.values[0].page != "alerts.md"])
def test_probes_ask_for_paths_of_the_api(block: Block) -> None:
    for probe in yaml.safe_load(block.text).values():
        assert ("GET", probe["httpGet"]["path"]) in OPERATIONS


@pytest.mark.parametrize("block", of_kind("shell"))
def test_commands_exist(deps: HerderDependencies, block: Block) -> None:
    commands = commands_in(block)
    assert commands
    for command in commands:
        words = words_of(command.line)
        if words and not re.fullmatch(r"[A-Z]=\S*", words[0]):
            check_command(deps, words)


def words_of(line: str) -> list[str]:
    """Return the words of a command up to a pipe or a redirection; marks of optional parts are left out."""
    if line.removeprefix(".venv/bin/").startswith(("connectrt", "./spark-submit.sh", "python")):
        line = re.sub(r"(?<![{(])\[|\](?![})])|\s\|\s|\.\.\.", " ", line)
    words = shlex.split(line.removeprefix(".venv/bin/"), comments=True)
    end = next((number for number, word in enumerate(words) if word in ("|", ">")), len(words))
    return words[:end]


def check_command(deps: HerderDependencies, words: list[str]) -> None:
    program, arguments = words[0], words[1:]
    if program == "connectrt":
        parse_connectrt(arguments)
    elif program in ("curl", "post"):
        check_request(deps, arguments, "POST" if program == "post" else None)
    elif words[:2] == ["pip", "wheel"]:
        assert words[-1].startswith("."), "a bare name is a package of the index, not a folder"
    elif program in CLUSTERS:
        named = [word for word in arguments if re.match(r"(conf|jobs|examples)/", word)]
        assert [word for word in named if not (ROOT / word).exists()] == []
    else:
        assert program in PROGRAMS, f"what is {program}? Check it here, or say in PROGRAMS why not"


def parse_connectrt(words: list[str]) -> None:
    """Parse a command line without running it. Raises click's UsageError: a word or an option is unknown."""
    command: Any = _COMMAND_LINE
    name, context = "connectrt", None
    while True:
        context = command.make_context(name, list(words), parent=context)
        if not hasattr(command, "resolve_command"):
            return
        rest = [*getattr(context, "_protected_args", ()), *context.args]
        name, command, words = command.resolve_command(context, rest)


def check_request(deps: HerderDependencies, words: list[str], method: str | None) -> None:
    """Look a request up among the operations of the API, and validate the connector that it carries."""
    url, data = "", None
    given = iter(words)
    for word in given:
        if word == "-X":
            method = next(given)
        elif word == "-d":
            data = next(given)
        elif word in ("-H", "-u"):
            next(given)
        elif not word.startswith("-"):
            url = word
    asked = urlsplit(url.replace("$C", "http://host"))
    method = method or ("GET" if data is None else "POST")
    if (method, asked.path) in OUTSIDE_THE_DESCRIPTION:
        return
    operation, template = operation_of(method, asked.path)
    known = {parameter.name for parameter in operation.parameters}
    assert set(parse_qs(asked.query)) <= known, f"{template} takes {sorted(known)}"
    if data is None or data.startswith("@"):
        return
    body = json.loads(data.replace("{...}", "{}"))
    config = body if template.endswith("/config") else body.get("config")
    if config:
        check_connector(deps, config)


def operation_of(method: str, path: str) -> tuple[Any, str]:
    """Return an operation and its path. Whole paths come before those with parameters, as in the routes."""
    for (there, template), operation in sorted(OPERATIONS.items(), key=lambda item: item[0][1].count("{")):
        pattern = re.sub(r"\{[^}]*\}", "[^/]+", template)
        if there == method and re.fullmatch(pattern, path.rstrip("/") or "/"):
            return operation, template
    raise AssertionError(f"{method} {path} is not an operation of the API")


@pytest.mark.parametrize("block", of_kind("python"))
def test_python_is_executed_by_a_test_that_reads_the_page(block: Block) -> None:
    test = ROOT / PYTHON[block.page]
    assert block.page in test.read_text(encoding="utf-8")
    compile(textwrap.dedent(block.text), block.page, "exec")


def test_tables_name_only_what_is_there() -> None:
    for page, first in UNCHECKED:
        assert any(block.page == page and block.first.startswith(first) for block in BLOCKS)
    assert set(PYTHON) == {block.page for block in BLOCKS if kind_of(block) == "python"}


@pytest.mark.parametrize("table", [LEFT_OUT, ENDS], ids=["left out", "ends"])
def test_exceptions_of_the_commands_that_run_name_commands_that_exist(
    table: Mapping[tuple[str, str], object],
) -> None:
    commands = [(page.name, line) for page in STORY_PAGES for line, _ in commands_of(page)]
    assert len(commands) > 100
    for page, start in table:
        assert any(name == page and line.startswith(start) for name, line in commands), (page, start)


def test_the_python_of_the_readme_is_that_of_a_page_whose_blocks_run() -> None:
    run = {block.text for block in BLOCKS if block.page == "format.md" and block.language == "python"}
    assert {block.text for block in BLOCKS if block.page == "README.md" and block.language == "python"} <= run


def test_the_sink_of_errant_records_reports_what_is_refused() -> None:
    """errant_records.md: the task reports one record and goes on; the other block is a method that the engine asks."""

    class RefusedError(Exception):
        pass

    def send(_: object, record: Any) -> None:
        if record.value == "bad":
            raise RefusedError("no")
        sent.append(record.value)

    sent: list[Any] = []
    first, second = (block for block in BLOCKS if block.page == "errant_records.md" and block.language == "python")
    names: dict[str, Any] = {"SinkTask": SinkTask, "RefusedError": RefusedError}
    exec(compile(first.text, first.page, "exec"), names)
    exec(compile(textwrap.dedent(second.text), second.page, "exec"), names)
    assert hasattr(SinkTask, "may_put_halves")
    own = {"send": send, "stop": lambda self: None, "may_put_halves": names["may_put_halves"]}
    task: type[Any] = type("Orders", (names["OrdersTask"],), own)

    class OrdersSink(SinkConnector):
        def config_def(self) -> ConfigDef:
            return ConfigDef()

        def task_class(self) -> type[Any]:
            return task

        def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
            return [dict(self.config)]

    fragment = next(block for block in BLOCKS if block.page == "errant_records.md" and kind_of(block) == "fragment")
    with SinkHarness(OrdersSink, {"topics": "orders", **json.loads(f"{{{fragment.text}}}")}) as sink:
        for value in ("good", "bad", "better"):
            sink.send("orders", value)
        assert sink.deliver()
        assert sent == ["good", "better"]
        assert [letter["value"] for letter in sink.dead_letters()] == [b'"bad"']


def test_the_resources_of_dlt_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """dlt.md: its resource yields records. Ours is made and checked: a stand-in for dlt's pipeline loads nothing."""
    loaded: list[Any] = []
    dlt = pytest.importorskip("dlt")
    run: Callable[[Any], object] = loaded.append
    monkeypatch.setattr(dlt, "pipeline", lambda name, destination: SimpleNamespace(run=run))
    first, second = (block for block in BLOCKS if block.page == "dlt.md" and block.language == "python")
    names: dict[str, Any] = {"__name__": __name__}
    exec(compile(first.text, first.page, "exec"), names)
    assert [row["id"] for row in names["tickets"]] == [1, 2]
    exec(compile(second.text, second.page, "exec"), {})
    assert [resource.name for resource in loaded] == ["HttpSource"]
    assert "dlt" in sys.modules
