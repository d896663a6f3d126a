import pytest

from spark_connect_rt.base.checked_lines import decode_lines, decode_record, encode_lines, encode_record
from spark_connect_rt.errors import DataError

HEADER = {"kind": "k", "version": 1, "name": "ü"}
RECORD = (3, 17, b'["c",{}]', b"\x00\xff", 1_000)


def written() -> bytes:
    return b"".join(encode_lines(HEADER, [encode_record(RECORD), {"x": 1}]))


def test_written_lines_are_read() -> None:
    header, rows = decode_lines(written(), "k", 1)
    assert header == HEADER
    assert decode_record(rows[0]) == RECORD
    assert rows[1:] == [{"x": 1}]


@pytest.mark.parametrize("record", [(0, 0, None, None, 0), (0, 0, b"", b"", -1), (0, 0, b"", None, 0)])
def test_null_and_empty_stay_apart(record: tuple[int, int, bytes | None, bytes | None, int]) -> None:
    assert decode_record(encode_record(record)) == record


def test_every_changed_byte_is_noticed() -> None:
    data = written()
    for at in range(len(data)):
        with pytest.raises(DataError):
            decode_lines(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :], "k", 1)


def test_a_file_that_was_truncated_is_refused_at_every_length() -> None:
    data = written()
    for length in range(len(data) - 1):  # the very last line end may go
        with pytest.raises(DataError):
            decode_lines(data[:length], "k", 1)


@pytest.mark.parametrize(("kind", "version"), [("other", 1), ("k", 2)])
def test_another_kind_or_version_is_refused(kind: str, version: int) -> None:
    with pytest.raises(DataError, match=f"Expected: {kind}, version {version}"):
        decode_lines(written(), kind, version)


@pytest.mark.parametrize(
    "change", [{"value": "AAA="}, {"key": "?"}, {"offset": 18}, {"partition": None}, {"timestamp": 1_001}]
)
def test_a_changed_record_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(DataError):
        decode_record({**encode_record(RECORD), **change})
