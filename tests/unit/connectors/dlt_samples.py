"""Sources of dlt for tests: what they give lies in ``SHELVES``, what they were asked in ``ASKED``."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import dlt
import pyarrow as pa

SHELVES: dict[str, list[Any]] = {}
ASKED: Counter[str] = Counter()
GONE = {"gone": {"data_type": "bool", "hard_delete": True}}
TYPED = {"at": {"data_type": "timestamp"}, "size": {"data_type": "bigint"}}
ANY_ORDER = dlt.sources.incremental("at", initial_value=0)
ASCENDING = dlt.sources.incremental("at", initial_value=0, row_order="asc")


def given(name: str) -> Iterator[Any]:
    for page in SHELVES[name]:
        if isinstance(page, Exception):
            raise page
        yield page


@dlt.resource(primary_key="id", columns=GONE)
def changes(at: Any = ANY_ORDER) -> Iterator[Any]:
    ASKED[f"changes from {at.last_value}"] += 1
    yield from given("changes")


@dlt.resource(primary_key="id")
def in_order(at: Any = ASCENDING) -> Iterator[Any]:
    ASKED[f"in_order from {at.last_value}"] += 1
    for page in given("in_order"):
        yield [row for row in page if row["at"] >= at.last_value]


@dlt.resource
def frames() -> Iterator[pa.Table]:
    yield from given("frames")


@dlt.resource(columns=TYPED)
def typed() -> Iterator[Any]:
    yield from given("typed")


@dlt.source
def shop(token: str = dlt.secrets.value, size: int = dlt.config.value) -> Any:
    ASKED[f"{token} {size}"] += 1

    @dlt.resource(write_disposition="replace")
    def customers() -> Iterator[Any]:
        yield [{"id": number} for number in range(size)]

    @dlt.transformer(data_from=customers)
    def orders(found: list[dict[str, Any]]) -> Iterator[Any]:
        yield [{"customer": customer["id"], "token": token} for customer in found]

    @dlt.resource(table_name=lambda row: f"kind of {row['kind']}")
    def events() -> Iterator[Any]:
        yield [{"kind": "a"}, {"kind": "b"}, {"kind": "a"}]

    return customers, orders, events


@dlt.source
def pooled() -> Any:
    """Items are made by the threads of dlt's pool, which ask for a setting there."""

    @dlt.resource
    def numbers() -> Iterator[int]:
        yield from range(4)

    @dlt.transformer(data_from=numbers)
    @dlt.defer
    def read(number: int) -> Any:
        in_pool = threading.current_thread().name.startswith("dlt-pool-")
        return {"id": number, "in_pool": in_pool, "token": dlt.config.get("api.token")}

    return numbers | read


def plain() -> None:
    ASKED["plain"] += 1
