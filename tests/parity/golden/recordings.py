"""The recordings of Java Connect, read back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from spark_connect_rt.base.cache import KAFKA_VERSION
from tests.parity.shared_trees import unpack
from tests.parity.topic_dump import DumpedRecord

HERE = Path(__file__).parent


def recording(name: str) -> dict[str, Any]:
    """Return one recording."""
    content: dict[str, Any] = orjson.loads((HERE / f"{name}-{KAFKA_VERSION}.json").read_bytes())
    return content


def data_cases(name: str) -> list[dict[str, Any]]:
    """Return the pairs of ``case`` and ``java`` of a recording of data-*.json."""
    content = recording(name)
    cases: list[dict[str, Any]] = unpack(content["trees"], content["cases"])
    return cases


def records(store: str) -> list[tuple[int, bytes, bytes | None]]:
    """Return (offset, key, value) of every record of ``store`` in both recordings."""
    found: list[DumpedRecord] = []
    for name in ("topics", "topics-exactly-once"):
        found += recording(name)[store]
    return [(record["offset"], _bytes(record["key"]) or b"", _bytes(record["value"])) for record in found]


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()
