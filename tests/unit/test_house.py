"""The house rules that a machine can check."""

from __future__ import annotations

import ast
import re
import subprocess
import warnings
from collections.abc import Iterator, Mapping
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "spark_connect_rt"
MIN_LINES, MAX_LINES, MAX_FILES = 80, 600, 40  # of a module; of a folder
# Modules and folders (patterns) that are smaller or larger for a reason.
SIZE_REASONS = {
    "*/__init__.py": "headers of folders",
    "__main__.py": "python -m",
    "_*.py": "the version, moved names: nothing else may be in them",
    "operations/*/*routes.py": "the REST side of a feature",
    "operations/*/*page.py": "the console side of a feature",
    "operations/*/*commands.py": "the command line side of a feature",
    "operations/*/wiring.py": "where a feature meets its adapters",
    "operations/*/model.py": "values of a feature, imported by all of its sides",
    "operations/*/view.py": "pure part of a page",
    "app/*": "loaded when its command is used",
    "api/*": "imported by plug-ins under this name",
    "connectors/*": "its name is stored with tasks or named by users; private parts have one reader each",
    "cli/*": "a command imports only its parts: start-up time",
    "base/*": "one small part each, for every layer",
    "rest/*.py": "one resource each",
    "rest/client/*": "imported by every command: start-up time",
    "records/transforms/*": "one transformation each, imported when it is used",
    "testing/*": "one port in memory each",
    "engine/startup/*": "runs before Spark does and imports next to nothing",
    "engine/executor/sink_task.py": "the life of one sink task",
    "engine/executor/python_sink.py": "the contract of sinks, and the Python task behind it",
    "engine/java_host/source_task.py": "the life of one Java source task",
    "kafka/writing/column_producer.py": "the life of a record in a producer",
    "operations/dead_letters/replay.py": "the life of one replay",
    "engine/executor/new_topics.py": "used by three kinds of writers",
    "engine/executor/poll_gate.py": "how tasks share the interpreter, apart from what a task does",
    "engine/executor/closed_pipes.py": "imported by the daemon, which imports next to nothing",
    "engine/executor/ticket.py": "imported by Spark's planner, which imports next to nothing",
    "engine/executor/datasource.py": "imported by Spark's planner, which imports next to nothing",
}
TEXT = {".py", ".md", ".sh", ".toml", ".properties", ".lock", ".json", ".txt", ""}
BANNED_NAMES = {"utils", "common", "helpers", "base", "manager", "misc"}
RIDDLES = {"one"}  # a variable is named after the thing that it stands for: run, partition, record
PYTHON_FOLDERS = ("spark_connect_rt", "tests", "tools", "bench")


class SizeAdvice(UserWarning):
    """A module or folder whose size asks whether it is cut at the right place."""


def size_advice(package: Path, reasons: Mapping[str, str]) -> Iterator[str]:
    """Yield one sentence per module and folder outside of the guidance that no pattern gives a reason for."""
    folders = {path.parent for path in package.rglob("*.py")}
    for folder in sorted(folders):
        files = sorted(folder.glob("*.py"))
        if len(files) > MAX_FILES:
            yield f"{folder.relative_to(package)}/: {len(files)} files, more than {MAX_FILES}"
        for path in files:
            name = path.relative_to(package).as_posix()
            lines = path.read_text(encoding="utf-8").count("\n")
            if not MIN_LINES <= lines <= MAX_LINES and not any(fnmatch(name, pattern) for pattern in reasons):
                yield f"{name}: {lines} lines, usual are {MIN_LINES} to {MAX_LINES}"


def broken_house_rules(package: Path) -> list[str]:
    """Return one sentence per broken rule; empty means the tree is in order."""
    broken = []
    for path in sorted(package.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        if path.stem in BANNED_NAMES:
            broken.append(f"{path}: the name says nothing")
        tree = ast.parse(source)
        nodes = [n for n in tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef)]
        for node in [tree, *(n for n in nodes if not n.name.startswith("_"))]:
            if not ast.get_docstring(node):
                broken.append(f"{path}: {getattr(node, 'name', 'module')} has no docstring")
    return broken


def tracked_text() -> list[tuple[str, str]]:
    names = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    texts = []
    for name in filter(None, names):
        path = ROOT / name
        if path.is_file() and path.suffix in TEXT:
            texts.append((name, path.read_text(encoding="utf-8", errors="replace")))
    return texts


def test_every_file_keeps_the_house_rules() -> None:
    assert broken_house_rules(PACKAGE) == []


def test_a_file_without_docstring_and_meaning_is_found(tmp_path: Path) -> None:
    (tmp_path / "utils.py").write_text("x = 1\n" * 500)
    assert len(broken_house_rules(tmp_path)) == 2


@pytest.mark.filterwarnings("default::tests.unit.test_house.SizeAdvice")
def test_sizes_outside_of_the_guidance_are_shown() -> None:
    if advice := list(size_advice(PACKAGE, SIZE_REASONS)):
        warnings.warn(SizeAdvice("\n".join(["sizes to look at:", *advice])), stacklevel=1)


def test_sizes_with_a_reason_are_not_shown(tmp_path: Path) -> None:
    (tmp_path / "long.py").write_text("x = 1\n" * 700)
    (tmp_path / "short.py").write_text("x = 1\n")
    (tmp_path / "fits.py").write_text("x = 1\n" * 100)
    assert list(size_advice(tmp_path, {"short*": "a reason"})) == ["long.py: 700 lines, usual are 80 to 600"]
    for number in range(MAX_FILES):
        (tmp_path / f"short_{number}.py").write_text("x = 1\n")
    assert next(size_advice(tmp_path, {"*": "a reason"})) == f"./: {MAX_FILES + 3} files, more than {MAX_FILES}"


def test_no_absolute_path_and_no_registry_host_in_the_repository() -> None:
    pattern = re.compile(
        r"(?<![\w.:/])/(?:work|root|home/\w+|Users/\w+)/|repo1?\.maven\.(?:apache\.)?org|pypi\.org|pythonhosted"
    )
    found = [f"{name}: {m.group(0)}" for name, text in tracked_text() for m in pattern.finditer(text)]
    assert [line for line in found if not line.startswith("tests/unit/test_house.py")] == []


def test_the_readme_is_short() -> None:
    assert (ROOT / "README.md").read_text(encoding="utf-8").count("\n") <= 120


def test_nothing_cites_a_document_that_is_not_here() -> None:
    # documents and numbered lists that only those who built this had
    pattern = re.compile(
        r"house rule \d|(?<![\w])facts (?:section )?\d|\b\d+\.\d+ of the facts"
        r"|\b(?:house|design|findings|anchors|oracle|connect_facts)\.md"
        r"|\b(?:connect_facts|spark_execution|security_and_errors|lakehouse_cdc)\b|\bissue #?\d+\b",
        re.IGNORECASE,
    )
    found = [f"{name}: {m.group(0)}" for name, text in tracked_text() for m in pattern.finditer(text)]
    assert [line for line in found if not line.startswith("tests/unit/test_house.py")] == []


# What carries data: a value of an unknown class must be refused there, and not written as Python shows it.
DATA_PATHS = ("api", "connectors", "records")


def python_words_as_data(source: str) -> list[int]:
    """Return the lines that encode whatever comes by ``str`` or ``repr``: json's default=str, repr(...).encode()."""
    lines = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        encoders = [word.value for word in node.keywords if word.arg == "default"]
        if any(isinstance(encoder, ast.Name) and encoder.id in ("str", "repr") for encoder in encoders):
            lines.append(node.lineno)
        written = node.func.value if isinstance(node.func, ast.Attribute) and node.func.attr == "encode" else None
        if isinstance(written, ast.Call) and isinstance(written.func, ast.Name) and written.func.id == "repr":
            lines.append(node.lineno)
    return lines


def test_no_data_is_written_as_python_shows_it() -> None:
    # A dead letter's body that has no JSON form is marked as text for a person to read.
    allowed = {"records/pipeline/dead_letters.py"}
    found = {
        str(path.relative_to(PACKAGE)): lines
        for folder in DATA_PATHS
        for path in sorted((PACKAGE / folder).rglob("*.py"))
        if (lines := python_words_as_data(path.read_text(encoding="utf-8")))
    }
    assert {name: lines for name, lines in found.items() if name not in allowed} == {}


def test_the_check_finds_both_forms() -> None:
    source = (
        "orjson.dumps(x, default=str)\njson.dumps(x, default=repr)\nrepr(x).encode()\norjson.dumps(x, default=form)\n"
    )
    assert python_words_as_data(source) == [1, 2, 3]


# Modules at the top of threads and calls that run plug-ins' code. Not among them: where only an ``Exception`` may be a
# record's fault (the pipeline, python_sink.py), and whatever else is raised fails the task.
CALLS_PLUGINS = (
    "engine/java_host/latest_config.py",
    "runtime/herder/health.py",
    "runtime/worker/worker_connector.py",
    "runtime/worker/java_launches.py",
    "runtime/worker/launches.py",
    "runtime/worker/prepared_runner.py",
    "runtime/worker/task_starts.py",
    "runtime/worker/worker_connector.py",
    "engine/executor/hosting.py",
    "engine/executor/task_writer.py",
    "engine/previews/preview_job.py",
    "engine/executor/idle_poller.py",
    "engine/executor/reader_side.py",
    "engine/executor/sink_feed.py",
    "engine/executor/sink_task.py",
    "engine/executor/python_source.py",
    "engine/executor/source_task.py",
    "engine/executor/source_task_writer.py",
    "engine/executor/writer_side.py",
)


def handlers_of_exception(source: str) -> list[int]:
    """Return the lines that catch ``Exception``: SystemExit, KeyboardInterrupt and GeneratorExit pass them."""
    handlers = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ExceptHandler)]
    return [
        handler.lineno for handler in handlers if isinstance(handler.type, ast.Name) and handler.type.id == "Exception"
    ]


def test_plugin_errors_of_every_kind_are_caught() -> None:
    """A plug-in may raise SystemExit: a thread that ends by it leaves its connector or task as it was, for ever."""
    sources = {name: (PACKAGE / name).read_text(encoding="utf-8") for name in CALLS_PLUGINS}
    assert [f"{name}:{line}" for name, source in sources.items() for line in handlers_of_exception(source)] == []


def test_a_handler_that_lets_an_exit_pass_is_found() -> None:
    assert handlers_of_exception(
        "try:\n    call()\nexcept ValueError:\n    pass\nexcept Exception as error:\n    pass"
    ) == [5]
    assert handlers_of_exception("try:\n    call()\nexcept BaseException:\n    pass") == []
