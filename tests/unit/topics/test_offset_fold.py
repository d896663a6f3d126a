import pytest

from spark_connect_rt.errors import DataError
from spark_connect_rt.topics.offset_records import OffsetFold, partition_key, same_offset

JAVA = b'["c",{"b":1,"a":"x"}]'  # not the order a HashMap gives: a connector may use any map
OURS = b'["c",{"a":"x","b":1}]'
PARTITION = {"a": "x", "b": 1}


def test_a_partition_is_found_by_value_and_written_under_the_bytes_it_has() -> None:
    fold = OffsetFold()
    fold.apply(JAVA, b'{"position":3}')
    assert fold.offset(partition_key("c", PARTITION)) == {"position": 3}
    assert fold.writes("c", PARTITION, {"position": 4}) == [(JAVA, b'{"position":4}')]


def test_a_new_partition_gets_the_bytes_java_would_write() -> None:
    assert OffsetFold().writes("c", {"b": 1, "a": "x"}, {"p": 1}) == [(OURS, b'{"p":1}')]


def test_a_forgotten_partition_is_written_again_under_its_old_bytes() -> None:
    fold = OffsetFold()
    fold.apply(JAVA, b'{"p":1}')
    fold.apply(JAVA, None)
    assert fold.offset(partition_key("c", PARTITION)) is None
    assert fold.connector_offsets("c") == []
    assert fold.writes("c", PARTITION, {"p": 2}) == [(JAVA, b'{"p":2}')]


def test_two_spellings_of_one_partition_are_healed_by_the_next_write() -> None:
    fold = OffsetFold()
    fold.apply(JAVA, b'{"p":1}')
    fold.apply(OURS, b'{"p":2}')
    assert fold.offset(partition_key("c", PARTITION)) == {"p": 2}
    written = list(fold.writes("c", PARTITION, {"p": 3}))
    assert written == [(OURS, b'{"p":3}'), (JAVA, None)]
    for key, value in written:
        fold.apply(key, value)
    assert fold.writes("c", PARTITION, None) == [(OURS, None)]


def test_forgetting_one_spelling_shows_the_other_again() -> None:
    fold = OffsetFold()
    fold.apply(JAVA, b'{"p":1}')
    fold.apply(OURS, b'{"p":2}')
    fold.apply(OURS, None)
    assert fold.offset(partition_key("c", PARTITION)) == {"p": 1}


def test_offsets_are_listed_by_connector() -> None:
    fold = OffsetFold()
    fold.apply(b'["c",null]', b'{"p":1}')
    fold.apply(b'["d",{"f":"y"}]', b'{"p":2}')
    fold.apply(b'["c",{"f":"x"}]', b"null")  # JSON null is a tombstone, as in Java
    assert fold.connector_offsets("c") == [(None, {"p": 1})]
    assert fold.connector_offsets("d") == [({"f": "y"}, {"p": 2})]


@pytest.mark.parametrize(("key", "value"), [(b"c", b"{}"), (b'["c",{}]', b"{"), (b'["c",{}]', b"[]")])
def test_unreadable_record_is_refused(key: bytes, value: bytes) -> None:
    with pytest.raises(DataError):
        OffsetFold().apply(key, value)


def test_numbers_of_other_types_are_other_offsets() -> None:
    assert same_offset({"a": 1, "b": None}, {"b": None, "a": 1})
    assert not same_offset({"a": 1}, {"a": 1.0})
    assert not same_offset({"a": 1}, {"a": True})
    assert not same_offset(None, {})
