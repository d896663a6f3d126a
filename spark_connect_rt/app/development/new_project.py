"""Writes the project of a new connector: code, tests, a configuration to run, packaging.

``project_files`` says what is in it; ``create_project`` writes that, into a new folder only.
"""

from __future__ import annotations

import importlib.util
import keyword
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template

from spark_connect_rt.app.development.project_templates import SINK, SOURCE
from spark_connect_rt.errors import BadRequestError

# The files that every new project has, whatever its kind.


PYPROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "$name"
version = "0.1.0"
requires-python = ">=3.11"
dependencies = ["spark-connect-rt"]

[project.optional-dependencies]
test = ["pytest"]

[project.entry-points."spark_connect_rt.${kind}_connectors"]
$class_name = "$module:$class_name"

[tool.hatch.build.targets.wheel]
only-include = ["$module.py"]

[tool.pytest.ini_options]
pythonpath = ["."]
"""

README = """
# $name

A $kind connector for spark-connect-rt.

| You want to | Run here |
|---|---|
| see what it does while you write it | `connectrt dev connector.json` |
| test it | `pytest` |
| build a wheel | `pip wheel --no-deps --wheel-dir dist .` |
| install the wheel on running workers | `connectrt plugins install dist/WHEEL --url http://HOST:8083` |
| start the connector there | `connectrt apply -f connector.json --url http://HOST:8083` |
"""

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_KINDS = {"source": SOURCE, "sink": SINK}


def create_project(kind: str, name: str, folder: Path | None = None) -> list[str]:
    """Write the files of a project into ``folder``, by default ``./NAME``; return the lines to show.

    Raises BadRequestError: the name is invalid or taken by another module, or the folder holds something.
    """
    target = folder or Path(name)
    problem = name_problem(name)
    if problem:
        raise BadRequestError(problem)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise BadRequestError(f"{target} exists and is not empty. Choose another --folder; nothing was written.")
    try:
        target.mkdir(parents=True, exist_ok=True)
        for file, text in project_files(kind, name).items():
            (target / file).write_text(text, "utf-8")
    except OSError as error:
        raise BadRequestError(f"{target} cannot be written: {error.strerror or error}") from error
    written = [f"wrote {target / file}" for file in project_files(kind, name)]
    code = target / f"{module_name(name)}.py"
    return [
        *written,
        "",
        "Next:",
        f"  connectrt dev {target / 'connector.json'}    # runs it, and reloads it when you save {code.name}",
        f"  pytest {target}    # its tests",
    ]


def project_files(kind: str, name: str) -> Mapping[str, str]:
    """Return the files of a project of ``kind`` (source, sink): file name -> content."""
    template = _KINDS[kind]
    module = module_name(name)
    words = {"name": name, "module": module, "kind": kind, "class_name": class_name(kind, name)}
    words["task_name"] = f"{words['class_name']}Task"
    texts = {
        f"{module}.py": template.code,
        f"test_{module}.py": template.tests,
        **template.files,
        "pyproject.toml": PYPROJECT,
        "README.md": README,
    }
    return {file: Template(text.lstrip("\n")).substitute(words) for file, text in texts.items()}


def module_name(name: str) -> str:
    """Return the module of a project's name: ``my-orders`` becomes ``my_orders``."""
    return name.lower().replace("-", "_")


def class_name(kind: str, name: str) -> str:
    """Return the connector's class: ``my-orders`` of kind source becomes ``MyOrdersSource``."""
    words = [word for word in re.split(r"[-_]", name) if word]
    if len(words) > 1 and words[-1].lower() == kind:
        words.pop()
    return "".join(word[:1].upper() + word[1:] for word in words) + kind.capitalize()


def name_problem(name: str, known: Sequence[str] = tuple(sys.stdlib_module_names)) -> str | None:
    """Return why a project cannot have this name, None: it can. ``known``: the modules of Python itself."""
    if not _NAME.fullmatch(name):
        return f"{name!r} is not a valid name. Use letters, digits, - and _, beginning with a letter, such as orders."
    module = module_name(name)
    if keyword.iskeyword(module) or module in known or _is_installed(module):
        return f"{name}: a Python module {module} exists already. Choose another name, such as {name}-entries."
    return None


def _is_installed(module: str) -> bool:
    """Return whether an installed module has this name; a folder without code has none."""
    try:
        found = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return False
    return found is not None and found.origin is not None
