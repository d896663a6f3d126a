"""Lines of a file: however the bytes are cut, the lines are the same."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from spark_connect_rt.connectors.files.file_stream_source import complete_end, split_lines


@settings(deadline=None)
@given(st.binary(max_size=40).map(lambda b: bytes(b"ab\r\n"[x % 4] for x in b)), st.integers(1, 5))
def test_any_cut_into_chunks_and_limits_gives_the_same_lines(content: bytes, limit: int) -> None:
    end = complete_end(content)
    expected = [line.decode() for line in content[:end].splitlines()]
    if end:
        assert split_lines(content[:end])[0].to_pylist() == expected
    limited, start = [], 0
    while start < end:
        values, used = split_lines(content[start:end], limit)
        assert 1 <= len(values) <= limit
        limited += values.to_pylist()
        start += used
    assert limited == expected
