"""Records what Java Connect says of its plug-ins: ``python -m tests.parity.record_plugins`` rewrites plugins-*.json.

Kafka's sentences about its settings are left out (``documentation``): ours are our own.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka
from spark_connect_rt.base.cache import KAFKA_VERSION, resolve_jars
from tests.parity.conversation import Ask, converse
from tests.parity.plugin_scripts import ABOUT_PLUGINS, OF_TEST_CONNECTORS, OVERRIDES, POLICIES
from tests.parity.shared_trees import pack, unpack
from tests.parity.worker_settings import SETTINGS
from tests.support import java_plugins
from tests.support.java_connect import COORDINATES, JavaConnect

_FOLDERS = re.compile(r"PluginDesc\{.*\}")
GOLDEN = Path(__file__).parent / "golden"
TEST_CONNECTORS = "test connectors"
GROUPS = ("All", *POLICIES, TEST_CONNECTORS)


def jars_with_test_connectors() -> list[Path]:
    """Return the class path: 4.1.1, and behind it the jars that still hold the test connectors."""
    return [*resolve_jars(COORDINATES), *java_plugins.jars_with_test_connectors()]


def asked(
    folder: Path, steps: Sequence[Ask], jars: list[Path] | None = None, **properties: str
) -> list[dict[str, Any]]:
    """Return the answers of a new Java worker; bodies as JSON trees where they are JSON."""
    settings = SETTINGS | {key.replace("__", "."): value for key, value in properties.items()}
    with (
        EmbeddedKafka(folder / "kafka", die_with_parent=True) as kafka,
        JavaConnect(folder / "java", kafka.bootstrap_servers, "golden", properties=settings, jars=jars) as java,
    ):
        said = converse(java.rest, java.directory, steps)
    return [
        {"name": answer.name, "status": answer.status, "content_type": answer.content_type, "body": _tree(answer.body)}
        for answer in said
    ]


def _tree(body: str) -> Any:
    try:
        return without_documentation(json.loads(body))
    except ValueError:
        return body


def without_documentation(tree: Any) -> Any:
    """Return a body without the sentences about settings, and without the recorder's folders."""
    if isinstance(tree, str):
        return _FOLDERS.sub("{...}", tree)
    if isinstance(tree, list):
        return [without_documentation(part) for part in tree]
    if isinstance(tree, dict):
        return {key: without_documentation(value) for key, value in tree.items() if key != "documentation"}
    return tree


def group(name: str, home: Path) -> list[dict[str, Any]]:
    """Return the answers of one worker: with an override policy, or with the test connectors."""
    if name == TEST_CONNECTORS:
        return asked(home, OF_TEST_CONNECTORS, jars_with_test_connectors())
    steps = ABOUT_PLUGINS if name == "All" else OVERRIDES
    return asked(home, steps, connector__client__config__override__policy=name)


def _recorded(target: Path) -> dict[str, Any]:
    if not target.exists():
        return {}
    document = json.loads(target.read_text(encoding="utf-8"))
    answers: dict[str, Any] = unpack(document["trees"], document["answers"])
    return answers


def main(names: Sequence[str]) -> None:
    """Ask a worker a group; groups that are not named keep what was recorded of them."""
    target = GOLDEN / f"plugins-{KAFKA_VERSION}.json"
    content = _recorded(target)
    for name in names or GROUPS:
        with tempfile.TemporaryDirectory() as folder:
            content[name] = group(name, Path(folder))
        table, packed = pack({key: content[key] for key in GROUPS if key in content})
        head = f'"recorded_from":"Apache Kafka Connect {KAFKA_VERSION}"'
        answers = ",\n".join(f"{json.dumps(key)}:{_lines(said)}" for key, said in packed.items())
        target.write_text(f'{{{head},"trees":{_lines(table)},"answers":{{\n{answers}}}}}\n', encoding="utf-8")


def _lines(trees: list[Any]) -> str:
    return "[\n" + ",\n".join(json.dumps(tree, separators=(",", ":")) for tree in trees) + "\n]"


if __name__ == "__main__":
    main(sys.argv[1:])
