"""Writes the project of a new connector: code, tests, a configuration to run, packaging.

``project_files`` says what is in it; ``create_project`` writes that, into a new folder only. ``create_worker_file``
writes the file of a worker, which a wheel does not bring otherwise.
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

WORKER_FILE = """
# A worker of a group. Start it: connectrt worker $file
# For more workers of the group, start this file on other machines, or with another port in listeners.
bootstrap.servers=localhost:9092
group.id=$name

# Converters of connectors that set none.
key.converter=org.apache.kafka.connect.json.JsonConverter
value.converter=org.apache.kafka.connect.json.JsonConverter
key.converter.schemas.enable=false
value.converter.schemas.enable=false

# The group's topics, created at the first start. Factor 1 is for a single broker: use 3 in production.
config.storage.topic=$name-configs
config.storage.replication.factor=1
offset.storage.topic=$name-offsets
offset.storage.replication.factor=1
status.storage.topic=$name-status
status.storage.replication.factor=1

# Other workers must reach this address: on a cluster set listeners=http://0.0.0.0:8083 and this machine's name.
listeners=http://127.0.0.1:8083
rest.advertised.host.name=127.0.0.1

# Remove this line for spark-submit, which sets the master.
spark.master=local[*]
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


def create_worker_file(name: str, folder: Path | None = None) -> list[str]:
    """Write a complete worker's file, ``NAME.properties``, into ``folder`` (default: here); return the lines to show.

    Raises BadRequestError: the name is invalid, or the file exists or cannot be written.
    """
    if not _NAME.fullmatch(name):
        raise BadRequestError(f"{name!r} is not a valid name. Use letters, digits, - and _, and begin with a letter.")
    target = (folder or Path()) / f"{name}.properties"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("x", encoding="utf-8") as file:
            file.write(Template(WORKER_FILE.lstrip("\n")).substitute(name=name, file=target))
    except FileExistsError as error:
        raise BadRequestError(f"{target} exists. Choose another name; nothing was written.") from error
    except OSError as error:
        raise BadRequestError(f"{target} cannot be written: {error.strerror or error}") from error
    return [
        f"wrote {target}",
        "",
        "Next:",
        f"  set bootstrap.servers in {target}",
        f"  connectrt worker {target}    # runs it until Ctrl-C",
        "  connectrt get workers --url http://127.0.0.1:8083",
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
