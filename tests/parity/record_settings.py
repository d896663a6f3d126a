"""Records what Java Connect declares: ``python -m tests.parity.record_settings`` rewrites golden/settings-*.json.

Names, types, defaults, importance and display facts; never Kafka's sentences about them.
"""

from __future__ import annotations

import html
import json
import os
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka
from spark_connect_rt.base.cache import KAFKA_VERSION, resolve_jars
from spark_connect_rt.engine.startup.java_home import find_java
from tests.parity.worker_settings import SETTINGS
from tests.support.java_connect import COORDINATES, JavaConnect

GOLDEN = Path(__file__).parent / "golden"
KINDS = {"source": "FileStreamSource", "sink": "FileStreamSink"}
KEPT = ("type", "required", "default_value", "importance", "group", "order", "width", "display_name")
WORKER_CLASS = "org.apache.kafka.connect.runtime.distributed.DistributedConfig"
_READABLE_UNIT = re.compile(r" \([^)]*\)$")  # "5000 (5 seconds)"


def connector_settings(java: JavaConnect, plugin: str) -> dict[str, dict[str, Any]]:
    """Return setting -> facts, as the validation of an otherwise empty configuration shows them."""
    answer = java.rest.request("PUT", f"/connector-plugins/{plugin}/config/validate", {"connector.class": plugin})
    found = [config["definition"] for config in answer.json()["configs"]]
    return {definition["name"]: {fact: definition[fact] for fact in KEPT} for definition in found}


def worker_settings() -> dict[str, dict[str, str]]:
    """Return setting -> facts, from the page that Java's class makes of itself."""
    class_path = os.pathsep.join(map(str, resolve_jars(COORDINATES)))
    command = [str(find_java().executable), "-cp", class_path, WORKER_CLASS]
    page = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = {}
    for part in page.split("<li>\n<h4>")[1:]:
        name = re.search(r'<a id="([^"]*)">', part)
        facts = {key: html.unescape(value) for key, value in re.findall(r"<tr><th>(.*?):</th><td>(.*?)</td>", part)}
        if name and "Type" in facts:
            found[name[1].rpartition("_")[2]] = {
                "type": facts["Type"].upper(),
                "default": _READABLE_UNIT.sub("", facts["Default"]) if "Default" in facts else "",
                "importance": facts["Importance"].upper(),
            }
    return found


def main() -> None:
    """Ask a Java worker and a Java class."""
    with (
        tempfile.TemporaryDirectory() as folder,
        EmbeddedKafka(Path(folder) / "kafka", die_with_parent=True) as kafka,
        JavaConnect(Path(folder) / "java", kafka.bootstrap_servers, "golden", properties=SETTINGS) as java,
    ):
        content = {kind: connector_settings(java, plugin) for kind, plugin in KINDS.items()}
    document = {"recorded_from": f"Apache Kafka Connect {KAFKA_VERSION}", **content, "worker": worker_settings()}
    target = GOLDEN / f"settings-{KAFKA_VERSION}.json"
    target.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
