"""The index of keys answers as a dictionary does, whatever the hashes are, and after every change of the table."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spark_connect_rt.connectors.lakehouse import key_index
from spark_connect_rt.connectors.lakehouse.key_index import (
    DEAD,
    KeyIndex,
    encode_keys,
    files_and_rows,
    positions_of,
)
from spark_connect_rt.errors import DataError

EXAMPLES = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
BYTES = st.one_of(
    st.binary(max_size=20),
    st.integers(0, 60).map(lambda number: f"customer-{number:010d}".encode()),
    st.sampled_from([b"", b"\0", b"\0" * 8, b"x" * 7, b"x" * 8, b"x" * 9, b"y" * 300, b"y" * 299 + b"z"]),
)
INTEGERS = st.integers(-(2**63), 2**63 - 1) | st.integers(-30, 30)


@st.composite
def batches(draw: st.DrawFn) -> tuple[bool, list[list[tuple[Any, bool]]]]:
    """Draw batches of (key, deleted), each key once a batch."""
    integers = draw(st.booleans())
    pool = draw(st.lists(INTEGERS if integers else BYTES, min_size=1, max_size=60, unique=True))
    change = st.tuples(st.sampled_from(pool), st.booleans())
    return integers, draw(
        st.lists(st.lists(change, max_size=40, unique_by=lambda pair: pair[0]), min_size=1, max_size=8)
    )


def column(keys: list[Any], integers: bool) -> pa.Array:
    return pa.array(keys, pa.int64() if integers else pa.large_binary())


@pytest.fixture(params=[64, 12, 6, 0], ids=lambda bits: f"{bits} bits")
def hash_bits(request: pytest.FixtureRequest) -> int:
    """How many bits of a hash count. 12 and 6 make keys collide, 0 gives all keys the same hash."""
    return int(request.param)


@pytest.fixture
def early_merges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have levels merged, and the file of keys rewritten, at the sizes of a test."""
    monkeypatch.setattr(key_index, "_LEAST_MERGE", 20)
    monkeypatch.setattr(key_index, "_PIECE", 16)


@pytest.mark.usefixtures("early_merges")
@given(drawn=batches(), data=st.data())
@EXAMPLES
def test_swaps_undo_and_finds_answer_as_a_dictionary(
    tmp_path: Path, hash_bits: int, drawn: tuple[bool, list[list[tuple[Any, bool]]]], data: st.DataObject
) -> None:
    integers, changes = drawn
    limit = data.draw(st.sampled_from([None, 100]))
    index = KeyIndex(tmp_path, integers=integers, hash_bits=64 if integers else hash_bits, memory_limit_bytes=limit)
    model: dict[Any, int] = {}
    every_key = sorted({key for batch in changes for key, _ in batch})
    for number, batch in enumerate(changes):
        keys = column([key for key, _ in batch], integers)
        places = positions_of(number, np.arange(len(batch), dtype=np.int64))
        wanted = np.where([deleted for _, deleted in batch], DEAD, places) if batch else places
        before = index.swap(keys, wanted)
        assert before.tolist() == [model.get(key, DEAD) for key, _ in batch]
        if data.draw(st.booleans(), label="undo"):
            assert index.swap(keys, before).tolist() == wanted.tolist()
        else:
            model |= {key: place for (key, _), place in zip(batch, wanted.tolist(), strict=True)}
            model = {key: place for key, place in model.items() if place != DEAD}
        assert index.find(column(every_key, integers)).tolist() == [model.get(key, DEAD) for key in every_key]
        assert len(index) == len(model)
    index.close()


@given(
    keys=st.lists(BYTES, min_size=1, max_size=80, unique=True),
    repeated=st.integers(0, 3),
    cuts=st.lists(st.integers(0, 80), max_size=3),
)
@EXAMPLES
def test_built_index_finds_each_key(
    tmp_path: Path, hash_bits: int, keys: list[bytes], repeated: int, cuts: list[int]
) -> None:
    given_keys = keys + keys[:repeated]
    ends = [*sorted(min(cut, len(given_keys)) for cut in cuts), len(given_keys)]
    parts, begin = [], 0
    for number, end in enumerate(ends):
        parts.append(
            (
                column(given_keys[begin:end], False),
                positions_of(number, np.arange(end - begin, dtype=np.int64)),
            )
        )
        begin = end
    index = KeyIndex(tmp_path, integers=False, hash_bits=hash_bits)
    model = {key: place for part, places in parts for key, place in zip(part.to_pylist(), places.tolist(), strict=True)}
    assert index.build(parts) == len(given_keys) - len(keys)
    assert len(index) == len(keys)
    assert index.find(column(keys, False)).tolist() == [model[key] for key in keys]
    assert index.find(column([b"unknown", b"customer-"], False)).tolist() == [DEAD, DEAD]
    index.close()


def test_many_changes_answer_as_a_dictionary(tmp_path: Path, hash_bits: int) -> None:
    random = np.random.default_rng(11)
    index = KeyIndex(tmp_path, integers=False, hash_bits=hash_bits)
    model: dict[bytes, int] = {}
    for batch in range(6):
        keys = [f"order-{number}".encode() for number in random.choice(3_000, 700, replace=False)]
        wanted = np.where(random.random(700) < 0.2, DEAD, positions_of(batch, np.arange(700)))
        assert index.swap(column(keys, False), wanted).tolist() == [model.get(key, DEAD) for key in keys]
        model |= dict(zip(keys, wanted.tolist(), strict=True))
    live = {key: place for key, place in model.items() if place != DEAD}
    assert index.find(column(list(model), False)).tolist() == list(model.values())
    assert len(index) == len(live) > 1_000
    if hash_bits < 64:
        assert index.collisions > 100
    index.close()


def test_large_index_is_built_range_by_range(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_index, "_PIECE", 1_000)
    keys = np.random.default_rng(7).permutation(20_000).astype(np.int64)
    index = KeyIndex(tmp_path, integers=True, memory_limit_bytes=1_000)
    halves = [(pa.array(keys[half::2]), positions_of(half, np.arange(10_000, dtype=np.int64))) for half in (0, 1)]
    assert index.build(halves) == 0
    files, rows = files_and_rows(index.find(pa.array(keys)))
    assert (files == np.arange(20_000) % 2).all()
    assert (rows == np.arange(20_000) // 2).all()
    assert index.memory_bytes == 0  # it is mapped
    index.close()


@given(keys=st.lists(BYTES, max_size=60))
@EXAMPLES
def test_last_row_of_each_key_is_found(tmp_path: Path, hash_bits: int, keys: list[bytes]) -> None:
    index = KeyIndex(tmp_path, integers=False, hash_bits=hash_bits)
    assert index.last_of_each(column(keys, False)).tolist() == sorted(
        {key: row for row, key in enumerate(keys)}.values()
    )
    index.close()


def test_sliced_keys_are_those_of_the_slice(tmp_path: Path) -> None:
    index = KeyIndex(tmp_path, integers=False)
    whole = column([b"a", b"bb", b"ccc", b"dddd"], False)
    index.swap(whole.slice(1, 2), np.array([5, 6]))
    assert index.find(whole).tolist() == [DEAD, 5, 6, DEAD]
    assert index.last_of_each(whole.slice(2)).tolist() == [0, 1]
    index.close()


@pytest.mark.parametrize("integers", [True, False])
def test_key_that_is_given_twice_to_a_swap_is_refused(tmp_path: Path, integers: bool) -> None:
    index = KeyIndex(tmp_path, integers=integers)
    keys = column([1, 2, 1] if integers else [b"a", b"b", b"a"], integers)
    with pytest.raises(ValueError, match="must be different"):
        index.swap(keys, np.array([1, 2, 3]))
    index.close()


@pytest.mark.usefixtures("early_merges")
@given(drawn=batches(), data=st.data())
@EXAMPLES
def test_index_follows_files_and_rows_that_go(
    tmp_path: Path, hash_bits: int, drawn: tuple[bool, list[list[tuple[Any, bool]]]], data: st.DataObject
) -> None:
    integers, changes = drawn
    index = KeyIndex(tmp_path, integers=integers, hash_bits=64 if integers else hash_bits)
    files: list[list[Any]] = []  # file -> the key of each row, None: dead
    where: dict[Any, tuple[int, int]] = {}
    for number, batch in enumerate(changes):
        places = positions_of(number, np.arange(len(batch), dtype=np.int64))
        index.swap(column([key for key, _ in batch], integers), places)
        for row, (key, _) in enumerate(batch):
            if key in where:
                files[where[key][0]][where[key][1]] = None
            where[key] = (number, row)
            files.append([]) if len(files) == number else None
            files[number].append(key)
        files += [[]] * (number + 1 - len(files))
    keys = sorted(where)
    expected = [positions_of(file, np.array([row]))[0] for file, row in (where[key] for key in keys)]
    assert index.find(column(keys, integers)).tolist() == expected
    gone = data.draw(st.integers(0, len(files)), label="dropped")
    assert index.drop_files([gone]) == sum(file == gone for file, _ in where.values())
    dropped = [place for key, place in zip(keys, expected, strict=True) if where[key][0] != gone][:3]
    assert index.drop_positions(np.array([*dropped, 1 << 60], np.int64)) == len(dropped)
    left = {key for key, place in zip(keys, expected, strict=True) if where[key][0] != gone and place not in dropped}
    assert {key for key, found in zip(keys, index.find(column(keys, integers)), strict=True) if found != DEAD} == left
    assert len(index) == len(left)
    index.close()


def test_file_of_keys_is_rewritten_without_deleted_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_index, "_LEAST_MERGE", 20)
    index = KeyIndex(tmp_path, integers=False)
    kept = column([f"kept-{number}".encode() for number in range(30)], False)
    index.swap(kept, np.arange(30))
    for batch in range(60):
        keys = column([f"{batch}-{number}".encode() for number in range(25)], False)
        index.swap(keys, np.arange(25))
        index.swap(keys, np.full(25, DEAD))
    assert index.disk_bytes < 200 * 16  # not 1,530 keys of 16 bytes
    assert index.find(kept).tolist() == list(range(30))
    index.close()


@given(
    rows=st.lists(
        st.tuples(st.text(max_size=6), st.integers(-5, 5), st.binary(max_size=3), st.decimals(-9, 9, places=1)),
        max_size=30,
    )
)
@EXAMPLES
def test_keys_of_several_columns_are_equal_exactly_if_the_rows_are(
    rows: list[tuple[str, int, bytes, Decimal]],
) -> None:
    kinds = (pa.string(), pa.int32(), pa.binary(), pa.decimal128(5, 1))
    columns = [pa.array([row[at] for row in rows], kind) for at, kind in enumerate(kinds)]
    encoded = encode_keys(columns).to_pylist()
    numbers = {row: number for number, row in enumerate(rows)}
    codes = {key: number for number, key in enumerate(encoded)}
    assert [numbers[row] for row in rows] == [codes[key] for key in encoded]


def test_single_whole_numbers_are_their_own_keys() -> None:
    assert encode_keys([pa.chunked_array([[1], [2]], pa.int16())]).to_pylist() == [1, 2]
    assert encode_keys([pa.array([3], pa.timestamp("us", "UTC"))]).type == pa.int64()
    assert encode_keys([pa.array([7], pa.date32())]).to_pylist() == [7]
    assert encode_keys([pa.array(["a", "b", "a"]).dictionary_encode()]).to_pylist() == [b"a", b"b", b"a"]


def test_index_of_files_without_rows_is_empty(tmp_path: Path) -> None:
    index = KeyIndex(tmp_path, integers=True)
    assert index.build([]) == 0
    assert len(index) == 0
    index.close()


def test_null_and_fractional_keys_are_refused() -> None:
    with pytest.raises(DataError, match="a key is null"):
        encode_keys([pa.array([1]), pa.array(["a", None])[:1], pa.array([None], pa.int64())])
    with pytest.raises(DataError, match="a column of double cannot be a key"):
        encode_keys([pa.array([1.5])])
