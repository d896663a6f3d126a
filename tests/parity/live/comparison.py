"""Makes two answers comparable: what must differ between any two workers is masked, and nothing else."""

from __future__ import annotations

from typing import Any

import orjson

from tests.parity.conversation import Said

MASKED = ("trace", "version", "kafka_cluster_id", "commit", "last_modified")
ADDED = ("code", "hint", "problems")  # additions go into new fields of an error body


def comparable(said: Said) -> dict[str, Any]:
    """Return the parts of an answer that two implementations must agree in; field order counts."""
    return {
        "status": said.status,
        "content_type": said.content_type.partition(";")[0],
        "location": said.location,
        "body": _body(said.body),
    }


def _body(text: str) -> str:
    try:
        return orjson.dumps(_masked(orjson.loads(text))).decode()
    except orjson.JSONDecodeError:
        return text


def _masked(value: Any) -> Any:
    if isinstance(value, list):
        return [_masked(item) for item in value]
    if not isinstance(value, dict):
        return value
    is_error = "error_code" in value
    return {
        key: "*" if key in MASKED and item is not None else _masked(item)
        for key, item in value.items()
        if not (is_error and key in ADDED)
    }
