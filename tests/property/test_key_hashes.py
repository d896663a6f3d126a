"""Keys hashed by the column: the numbers are those of Java's producers, whatever the lengths."""

from __future__ import annotations

import pyarrow as pa
import pytest
from aiokafka.partitioner import murmur2
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_connect_rt.kafka.records.partitioning import key_hashes

JAVA = {  # Java's UtilsTest.testMurmur2
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}
keys = st.lists(st.none() | st.binary(max_size=12) | st.binary(max_size=90), max_size=120)


@pytest.mark.parametrize("times", [1, 40])
def test_java_s_own_examples(times: int) -> None:
    column = pa.array([*JAVA] * times, pa.binary())
    assert key_hashes(column).tolist() == [number & 0x7FFFFFFF for number in JAVA.values()] * times


@settings(deadline=None, max_examples=200)
@given(keys, st.integers(0, 40))
def test_every_key_hashes_as_alone(some: list[bytes | None], skipped: int) -> None:
    column = pa.array(some, pa.binary()).slice(skipped)
    assert key_hashes(column).tolist() == [murmur2(key or b"") & 0x7FFFFFFF for key in some[skipped:]]
