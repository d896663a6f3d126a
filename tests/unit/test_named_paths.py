"""Paths and modules that docstrings, comments and pages name exist: a reader who follows them finds them."""

from __future__ import annotations

import ast
import io
import re
import subprocess
import tokenize
from collections.abc import Iterator, Sequence, Set
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = "spark_connect_rt"
MOVES = "docs/contributing/old_and_new_names.md"
# Decisions say what was so when they were made; the others name files of the reader's own project.
EXEMPT = (MOVES, "docs/decisions/", "docs/tutorial/", "tools/connectors/", "docs/reference/connectors/", "docs/howto/")
# Not modules: a logger, an entry-point group, Java classes, variables, files of examples.
OTHER_THINGS = {
    *("spark_connect_rt.audit", "spark_connect_rt.source_connectors", "kafka.bootstrap_servers"),
    *("tools.Mock", "tools.SchemaSourceConnector", "tools.Verifiable", "tests/kafkatest/tests/connect"),
    *("tools/connectors/NAME.md", "a.py", "b.py", "a/b.py"),
}
_NOT_BEFORE = r"(?<![\w.:{/~$<*-])"


@cache
def tracked() -> tuple[str, ...]:
    """Return the files of the repository that are there, by their paths from its root."""
    words = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    return tuple(name for name in listed.stdout.splitlines() if (ROOT / name).is_file())


@cache
def endings() -> Set[str]:
    """Return files, modules and folders, each by every end of its path: group/member.py, member.py, group/member."""
    found: set[str] = set()
    for name in tracked():
        parts = name.split("/")
        for end in range(1, len(parts) + 1):
            found.update("/".join(parts[begin:end]).removesuffix(".py") for begin in range(end))
        found.update("/".join(parts[begin:]) for begin in range(len(parts)))
    return found


@cache
def folders() -> Set[str]:
    """Return the first words of paths: folders of the repository and the package, and those that it had before."""
    former = re.findall(r"^\| `(\w+)/", (ROOT / MOVES).read_text(encoding="utf-8"), re.MULTILINE)
    return {"tests", "tools", PACKAGE, *former, *(path.name for path in (ROOT / PACKAGE).iterdir() if path.is_dir())}


@cache
def patterns() -> tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str]]:
    """Return what looks like a file, like a folder or module with slashes, and like a module with dots."""
    first = "|".join(sorted(folders()))
    dotted = "|".join(sorted(folders() - {"spark"}))  # settings of Spark begin so, too
    return (
        re.compile(_NOT_BEFORE + r"(?:\w+/)*\w+\.(?:py|md)(?![\w/-])"),
        re.compile(_NOT_BEFORE + rf"(?:{first})/(?:\w+/)*\w\w+(?![\w/*{{.-])"),
        re.compile(rf"(?<![\w./:])(?:(?:{dotted})\.(?:\w+\.)*(?:[a-z]\w*_\w+|[A-Z]\w*)|{PACKAGE}(?:\.\w+)+)(?![\w/(])"),
    )


@cache
def is_there(dotted: str) -> bool:
    """Return whether a module of the repository, or a name in it, is called so, with or without the package's name."""
    words = dotted.split(".")
    return any(_is_below(place, words) for place in (ROOT, ROOT / PACKAGE))


def _is_below(place: Path, words: Sequence[str]) -> bool:
    for number, word in enumerate(words):
        if (place / word).is_dir():
            place /= word
        elif (module := place / f"{word}.py").is_file():
            return all(_is_named(module, name) for name in words[number + 1 : number + 2])
        else:
            return number > 0 and _is_named(place / "__init__.py", word)
    return True


def _is_named(module: Path, name: str) -> bool:
    return module.is_file() and re.search(rf"\b{name}\b", module.read_text(encoding="utf-8")) is not None


def stale(text: str) -> Iterator[str]:
    """Yield the paths and modules of a text that do not exist."""
    file, path, module = patterns()
    yield from (word for word in file.findall(text) if word not in endings())
    yield from (word for word in path.findall(text) if word not in endings())
    yield from (word for word in module.findall(text) if not word.endswith((".py", ".md")) and not is_there(word))


def explanations(source: str) -> Iterator[str]:
    """Yield the comments and docstrings of a Python source."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node, clean=False) or ""


def stale_in(name: str, text: str) -> list[str]:
    """Return the stale paths and modules that a file names, in Python outside of the code."""
    found = set(stale(text)) - OTHER_THINGS
    if found and name.endswith(".py"):  # few: only these are read as Python
        found &= set(stale("\n".join(explanations(text))))
    return sorted(found)


def test_every_path_and_module_that_is_named_exists() -> None:
    texts = {
        name: (ROOT / name).read_text(encoding="utf-8")
        for name in tracked()
        if name.endswith((".py", ".md")) and not name.startswith(EXEMPT)
    }
    assert len(texts) > 1_000
    assert {name: found for name, text in texts.items() if (found := stale_in(name, text))} == {}


def test_stale_paths_are_found_in_docstrings_and_comments() -> None:
    source = '"""See ports/management and group/absent.txt.py."""\nx = "ports/never"  # runtime.herder.api.HerderApi\n'
    found = stale_in("x.py", source.replace(".txt", ""))
    assert found == ["group/absent.py", "ports/management", "runtime.herder.api.HerderApi"]


def test_existing_paths_and_names_of_settings_are_not_found() -> None:
    paths = "group/membership.py, membership.py, group/compact, kafka/records/record_columns, 5 records/s"
    modules = "runtime.herder.herder_api.HerderApi, spark_connect_rt.kafka.admin, tests.support.java_connect"
    assert list(stale(f"{paths}, {modules}, group.id, config.storage.topic, connectrt.java.options")) == []
