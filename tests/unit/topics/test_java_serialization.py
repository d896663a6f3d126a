"""The offset file's bytes: Java's own, and any other file that a user may name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_connect_rt.errors import DataError
from spark_connect_rt.topics.offset_file import decode_byte_map, encode_byte_map

FROM_JAVA = bytes.fromhex(  # written by ConnectStandalone 4.1.1 for one FileStreamSource
    "aced0005737200116a6176612e7574696c2e486173684d61700507dac1c31660d103000246000a6c6f6164466163746f72490009"
    "7468726573686f6c6478703f4000000000000c77080000001000000001757200025b42acf317f8060854e002000078700000001d"
    "5b22737263222c7b2266696c656e616d65223a22696e2e747874227d5d7571007e00020000000e7b22706f736974696f6e223a387d78"
)
OFFSETS = {b'["src",{"filename":"in.txt"}]': b'{"position":8}'}


def test_java_s_file_is_read_and_written_byte_for_byte() -> None:
    assert decode_byte_map(FROM_JAVA) == OFFSETS
    assert encode_byte_map(OFFSETS.items()) == FROM_JAVA


@given(st.dictionaries(st.none() | st.binary(max_size=8), st.none() | st.binary(max_size=8), max_size=40))
def test_byte_map_survives_a_round_trip(entries: dict[bytes | None, bytes | None]) -> None:
    assert decode_byte_map(encode_byte_map(entries.items())) == entries


def test_an_array_that_comes_twice_is_a_reference() -> None:
    """Java writes one object once: two partitions that share an offset's array."""
    data = encode_byte_map([(b"k", b"v"), (b"l", b"v")])
    array_again, reference = "7571007e000200000001", "71007e0004"
    shared = data.replace(bytes.fromhex(array_again) + b"v\x78", bytes.fromhex(reference) + b"\x78")
    assert len(shared) < len(data)
    assert decode_byte_map(shared) == {b"k": b"v", b"l": b"v"}


def test_damaged_and_foreign_files_are_refused() -> None:
    for end in range(len(FROM_JAVA)):
        with pytest.raises(DataError):
            decode_byte_map(FROM_JAVA[:end])
    for data in (
        b"",
        b"{}",
        bytes.fromhex("aced000574000161"),
        FROM_JAVA.replace(b"java.util.HashMap", b"java.util.TreeMap"),
    ):
        with pytest.raises(DataError, match="HashMap"):
            decode_byte_map(data)


@given(st.binary(max_size=60), st.integers(0, len(FROM_JAVA) - 1))
def test_no_bytes_raise_anything_else(noise: bytes, at: int) -> None:
    for data in (noise, FROM_JAVA[:at] + noise, FROM_JAVA[:at] + noise + FROM_JAVA[at + len(noise) :]):
        try:
            decode_byte_map(data)
        except DataError:
            continue
