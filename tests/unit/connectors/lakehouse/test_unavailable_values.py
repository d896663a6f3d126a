"""Every form of Debezium's placeholder for an unchanged large value is found, and nothing that only looks like it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from spark_connect_rt.connectors.lakehouse.unavailable_values import PLACEHOLDER, unavailable_values

# What Debezium 3.7 writes for an unchanged value in a column of text[], uuid[], bytea[], int[], bigint[] and hstore.
UUID = "b68a35a7-17ad-35b3-af2a-ae46edb4545a"
CODES = [ord(letter) for letter in PLACEHOLDER]
CASES: dict[str, tuple[pa.DataType, Any, Any]] = {
    "text": (pa.string(), PLACEHOLDER, "text"),
    "hstore as JSON": (pa.string(), f'{{"{PLACEHOLDER}":"{PLACEHOLDER}"}}', "{}"),
    "bytes": (pa.binary(), PLACEHOLDER.encode(), b"bytes"),
    "texts": (pa.list_(pa.string()), [PLACEHOLDER], [PLACEHOLDER, "b"]),
    "list of bytes": (pa.list_(pa.binary()), [PLACEHOLDER.encode()], [b"a"]),
    "whole numbers": (pa.list_(pa.int32()), CODES, CODES[:-1]),
    "large numbers": (pa.list_(pa.int64()), CODES, [CODES[0]]),
    "hstore as map": (pa.map_(pa.string(), pa.string()), [(PLACEHOLDER, PLACEHOLDER)], [(PLACEHOLDER, "b")]),
}


@pytest.mark.parametrize(("kind", "placeholder", "other"), CASES.values(), ids=CASES)
def test_placeholder_is_found_among_other_values(kind: pa.DataType, placeholder: Any, other: Any) -> None:
    empty: Any = [] if pa.types.is_nested(kind) else None
    column = pa.array([other, None, placeholder, empty, placeholder, other], kind)
    found = unavailable_values(column)
    assert found is not None
    assert found.tolist() == [False, False, True, False, True, False]
    sliced = unavailable_values(column.slice(1, 3))
    assert sliced is not None
    assert sliced.tolist() == [False, True, False]
    assert unavailable_values(column.slice(3, 1)) is None
    assert unavailable_values(pa.array([other, None], kind)) is None


def test_list_of_uuids_has_the_uuid_that_java_makes_of_the_placeholder() -> None:
    found = unavailable_values(pa.array([[UUID], [UUID, UUID]]))
    assert found is not None
    assert found.tolist() == [True, False]


def test_other_types_have_no_placeholder() -> None:
    assert unavailable_values(pa.array([1, 2])) is None
    assert unavailable_values(pa.array([[1.5]])) is None
    assert unavailable_values(pa.array([], pa.list_(pa.string()))) is None
