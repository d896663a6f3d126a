import pytest

from spark_connect_rt.base import json_text as records__json_text
from spark_connect_rt.errors import DataError
from spark_connect_rt.topics import offset_records as records


def test_keys_and_values_are_javas() -> None:
    assert records.encode_key("c", {"filename": "data.txt"}) == b'["c",{"filename":"data.txt"}]'
    assert records.encode_key("c", None) == b'["c",null]'
    assert records.encode_value({"position": 3}) == b'{"position":3}'
    assert records.encode_value(None) is None


def test_several_fields_come_in_hash_map_order() -> None:
    key = records.encode_key("mm", {"topic": "t", "partition": 0, "cluster": "a"})
    assert key == b'["mm",{"cluster":"a","partition":0,"topic":"t"}]'


def test_bytes_become_base64_text() -> None:
    assert records.encode_value({"b": b"\x00\x01"}) == b'{"b":"AAE="}'


@pytest.mark.parametrize("bad", [{1: 2}, {"a": [1]}, {"a": {}}, {"a": object()}])
def test_types_that_java_refuses_are_refused(bad: dict[str, object]) -> None:
    with pytest.raises(DataError):
        records.encode_key("c", bad)
    with pytest.raises(DataError):
        records.encode_value(bad)


@pytest.mark.parametrize("key", [None, b"x", b'"c"', b'["c"]', b'["c",{},1]', b"[1,{}]", b'["c",[]]', b'["c","p"]'])
def test_keys_that_are_not_name_and_map_are_refused(key: bytes | None) -> None:
    with pytest.raises(DataError):
        records.decode_key(key)


@pytest.mark.parametrize("bad", [2**63, -(2**63) - 1, "\ud800"])
def test_offset_that_no_message_can_carry_is_refused(bad: object) -> None:
    with pytest.raises(DataError):
        records.encode_value({"n": bad})
    assert (
        records.encode_value({"n": -(2**63), "m": 2**63 - 1}) == b'{"m":9223372036854775807,"n":-9223372036854775808}'
    )


def test_canonical_forms_distinguish_types_but_not_field_orders() -> None:
    assert records__json_text.canonical({"a": 1, "b": 2}) == records__json_text.canonical({"b": 2, "a": 1})
    forms = [records__json_text.canonical({"a": value}) for value in (1, 1.0, True, "1", None)]
    assert len(set(forms)) == 5
