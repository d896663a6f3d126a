"""What tests of programs share: the sample program as an executable, a harness's polls until they are enough."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from spark_connect_rt.connectors.external_process.airbyte_source import AirbyteSourceConnector
from spark_connect_rt.connectors.external_process.program_source import ProgramSourceConnector
from spark_connect_rt.connectors.external_process.singer_source import SingerSourceConnector
from spark_connect_rt.testing.connector_harness import ProducedRecord, SourceHarness

LIMIT_S = 60.0
KINDS: Mapping[str, type[ProgramSourceConnector]] = {
    "singer": SingerSourceConnector,
    "airbyte": AirbyteSourceConnector,
}


def sample_program(folder: Path) -> str:
    """Return the path of the sample program, executable."""
    path = folder / "sample-program"
    source = Path(__file__).with_name("sample_program.py").read_text(encoding="utf-8")
    path.write_text(f"#!{sys.executable}\n{source}", encoding="utf-8")
    path.chmod(0o700)
    return str(path)


def harness(
    kind: str, executable: str, config: Mapping[str, Any], settings: Mapping[str, str] | None = None
) -> SourceHarness:
    """Return the harness of a source whose program is ``executable``."""
    return SourceHarness(
        KINDS[kind],
        {
            "topic": "of.${stream}",
            f"{kind}.executable": executable,
            f"{kind}.config": json.dumps(config),
            f"{kind}.interval.ms": "-1",
            f"{kind}.retry.backoff.ms": "10",
            **(settings or {}),
        },
    )


def poll_until(
    source: SourceHarness, enough: Callable[[Sequence[ProducedRecord]], bool], durable: bool = True
) -> list[ProducedRecord]:
    """Poll until it is enough."""
    found: list[ProducedRecord] = []
    deadline_s = time.monotonic() + LIMIT_S
    while not enough(found):
        assert time.monotonic() < deadline_s, f"{len(found)} records within {LIMIT_S} s"
        found += source.poll(durable)
    return found


def poll_to_end(source: SourceHarness) -> list[ProducedRecord]:
    """Poll until each task's first run is over."""
    found = poll_until(source, lambda _: not any(task.has_more() for task in source.tasks))
    return found + source.poll()


def ids(records: Sequence[ProducedRecord], topic: str | None = None) -> list[int]:
    """Return the ids of records, in their order."""
    return [record.json()["id"] for record in records if record.value is not None and topic in (None, record.topic)]
