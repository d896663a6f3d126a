"""Records what Java Connect says and writes: ``python -m tests.parity.record`` rewrites golden/*.json.

Run it by hand after a change of scripts.py or of the Kafka version; it needs Java and Maven Central. What it
writes is committed: the golden tests then need neither.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka
from spark_connect_rt.base.cache import KAFKA_VERSION
from tests.parity.conversation import Said, Step, converse
from tests.parity.scripts import CLUSTER_LOGGER, EVERYTHING, SOURCE_LIFE
from tests.parity.topic_dump import dump
from tests.parity.worker_settings import SETTINGS
from tests.support.java_connect import JavaConnect

GOLDEN = Path(__file__).parent / "golden"
STORES = ("configs", "offsets", "statuses")
REST_PORT = 18083  # the records hold the worker's address: a fixed one keeps a new recording comparable


def record(directory: Path, steps: Sequence[Step], **properties: str) -> tuple[list[Said], dict[str, Any]]:
    """Hold the conversation with a new Java worker on a new broker; return answers and topic records."""
    with EmbeddedKafka(directory / "kafka", die_with_parent=True) as kafka:
        settings = {**SETTINGS, **{key.replace("_", "."): value for key, value in properties.items()}}
        java = JavaConnect(
            directory / "java", kafka.bootstrap_servers, "golden", properties=settings, rest_port=REST_PORT
        )
        with java:
            said = converse(java.rest, java.directory, steps)
        topics = {name: dump(kafka.bootstrap_servers, f"golden-{name}") for name in STORES}
    return said, topics


def _write(name: str, content: dict[str, Any]) -> None:
    document = {"recorded_from": f"Apache Kafka Connect {KAFKA_VERSION}", **content}
    text = json.dumps(document, indent=1, ensure_ascii=False)
    (GOLDEN / f"{name}-{KAFKA_VERSION}.json").write_text(text + "\n", encoding="utf-8")


def main() -> None:
    """Record both conversations."""
    with tempfile.TemporaryDirectory() as folder:
        said, topics = record(Path(folder) / "plain", EVERYTHING + CLUSTER_LOGGER)
        _write("rest", {"answers": [asdict(answer) for answer in said]})
        _write("topics", topics)
        _, topics = record(Path(folder) / "exactly-once", SOURCE_LIFE, exactly_once_source_support="enabled")
        _write("topics-exactly-once", topics)


if __name__ == "__main__":
    main()
