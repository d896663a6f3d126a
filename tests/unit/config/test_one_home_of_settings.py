"""A worker's settings are parsed once, in ``config``: nothing else knows their defaults, and all of them are used."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from collections.abc import Iterable, Iterator
from dataclasses import fields
from pathlib import Path

from spark_connect_rt import config
from spark_connect_rt.config.client_settings import CLIENTS, client_config_def
from spark_connect_rt.config.group_config import StorageTopic
from spark_connect_rt.config.settings_group import SettingsGroup
from spark_connect_rt.config.worker_settings import DISTRIBUTED, STANDALONE, StandaloneConfig

PACKAGE = Path(__file__).parents[3] / "spark_connect_rt"
OF_WORKERS = {*DISTRIBUTED.names(), *STANDALONE.names()}
OF_CLIENTS = {name for client in CLIENTS for name in client_config_def(client).names()}
# Below these folders such a name is a property of one client, which the worker's settings were made into already.
CLIENT_FOLDERS = ("kafka", "security", "connectors", "mirror", "schema_registry", "testing")


def sources() -> Iterator[tuple[Path, str]]:
    """Yield the modules of the package and their texts. Callers parse those that name something: all take 10 s."""
    for path in sorted(PACKAGE.rglob("*.py")):
        yield path.relative_to(PACKAGE), path.read_text(encoding="utf-8")


def any_of(names: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, sorted(names, key=len, reverse=True))))


def second_readings(path: Path, tree: ast.AST) -> list[str]:
    """Return where a worker's setting is taken out of texts with a default, or made a number."""
    own = OF_WORKERS - OF_CLIENTS if path.parts[0] in CLIENT_FOLDERS else OF_WORKERS
    found = []
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        if isinstance(call.func, ast.Attribute) and call.func.attr == "get" and len(call.args) == 2:
            taken = call.args[:1]
        elif isinstance(call.func, ast.Name) and call.func.id in ("int", "float"):
            taken = [inner for arg in call.args for inner in ast.walk(arg)]
        else:
            continue
        if any(isinstance(expr, ast.Constant) and expr.value in own for expr in taken):
            found.append(f"{path}:{call.lineno}")
    return found


def test_no_setting_of_a_worker_is_read_again_with_another_default() -> None:
    named = any_of(OF_WORKERS)
    outside = {path: text for path, text in sources() if path.parts[0] != "config" and named.search(text)}
    assert len(outside) > 50
    assert [place for path, text in outside.items() for place in second_readings(path, ast.parse(text))] == []


def test_the_check_finds_a_default_and_a_number() -> None:
    source = 'a = raw.get("group.id", "g")\nb = int(raw["session.timeout.ms"])\nc = raw.get("producer.acks", "1")\n'
    assert second_readings(Path("app/x.py"), ast.parse(source)) == ["app/x.py:1", "app/x.py:2"]


def test_every_field_of_a_group_is_read_somewhere() -> None:
    for module in pkgutil.iter_modules(config.__path__):
        importlib.import_module(f"{config.__name__}.{module.name}")
    groups = [*SettingsGroup.__subclasses__(), StorageTopic, StandaloneConfig]
    assert len(groups) > 10
    unread = {field.name for kind in groups for field in fields(kind)}
    for _, text in sources():
        if unread and any_of(unread).search(text):
            unread -= {node.attr for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Attribute)}
    assert unread == set()
