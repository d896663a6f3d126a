"""Data files have the rows, the partitions and the bounds that Iceberg's spec and pyiceberg give them."""

from __future__ import annotations

import datetime as dt
import itertools
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import fs
from pyiceberg.conversions import from_bytes
from pyiceberg.io.pyarrow import (
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
    pyarrow_to_schema,
)
from pyiceberg.transforms import parse_transform
from pyiceberg.types import (
    BinaryType,
    DateType,
    DecimalType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from spark_connect_rt.connectors.lakehouse.data_files import (
    FileSettings,
    FileTarget,
    PartitionField,
    WrittenFile,
    path_in_file_system,
    write_data_files,
    write_position_deletes,
)
from spark_connect_rt.connectors.lakehouse.partitions import partition_folder, partition_values
from spark_connect_rt.errors import DataError

EXAMPLES = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
MOMENTS = st.datetimes(dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31))
DECIMALS = st.decimals("-9999999.99", "9999999.99", places=2)
KINDS: dict[str, tuple[pa.DataType, IcebergType, st.SearchStrategy[Any]]] = {
    "int": (pa.int32(), IntegerType(), st.integers(-(2**31) + 1000, 2**31 - 1)),
    "long": (pa.int64(), LongType(), st.integers(-(2**63) + 1000, 2**63 - 1)),
    "date": (pa.date32(), DateType(), st.dates()),
    "time": (pa.time64("us"), TimeType(), st.times()),
    "timestamp": (pa.timestamp("us"), TimestampType(), MOMENTS),
    "timestamptz": (pa.timestamp("us", "UTC"), TimestamptzType(), MOMENTS.map(lambda it: it.replace(tzinfo=dt.UTC))),
    "decimal": (pa.decimal128(9, 2), DecimalType(9, 2), DECIMALS),
    "string": (pa.string(), StringType(), st.text(max_size=40)),
    "large string": (pa.large_string(), StringType(), st.text(max_size=40)),
    "binary": (pa.binary(), BinaryType(), st.binary(max_size=40)),
    "uuid": (pa.binary(16), UUIDType(), st.binary(min_size=16, max_size=16)),
}
TRANSFORMS = {
    "bucket[16]": set(KINDS),
    "bucket[1]": set(KINDS),
    "truncate[7]": {"int", "long", "decimal", "string", "large string", "binary"},
    "identity": set(KINDS),
    "year": {"date", "timestamp", "timestamptz"},
    "month": {"date", "timestamp", "timestamptz"},
    "day": {"date", "timestamp", "timestamptz"},
    "hour": {"timestamp", "timestamptz"},
}


def internal(column: pa.Array) -> list[Any]:
    """Return values as pyiceberg's transforms take and give them: days and microseconds."""
    if pa.types.is_date32(column.type):
        return list(column.view(pa.int32()).to_pylist())
    if pa.types.is_timestamp(column.type) or pa.types.is_time64(column.type):
        return list(column.view(pa.int64()).to_pylist())
    return list(column.to_pylist())


@pytest.mark.parametrize(("kind", "transform"), [(k, t) for t, kinds in TRANSFORMS.items() for k in sorted(kinds)])
@given(data=st.data())
@EXAMPLES
def test_transforms_are_those_of_pyiceberg(kind: str, transform: str, data: st.DataObject) -> None:
    arrow_type, iceberg_type, values = KINDS[kind]
    column = pa.array(data.draw(st.lists(st.none() | values, max_size=20)), arrow_type)
    expected = parse_transform(transform).transform(iceberg_type)
    found = partition_values(column, transform)
    assert internal(found) == [None if value is None else expected(value) for value in internal(column)]


def test_hashes_are_those_of_the_specification() -> None:
    # Appendix B of the Iceberg table spec
    buckets = "bucket[2147483647]"
    cases = [
        (pa.array([34], pa.int32()), 2017239379),
        (pa.array([34], pa.int64()), 2017239379),
        (pa.array([Decimal("14.20")], pa.decimal128(9, 2)), (-500754589) & 0x7FFFFFFF),
        (pa.array([dt.date(2017, 11, 16)]), (-653330422) & 0x7FFFFFFF),
        (pa.array([dt.time(22, 31, 8)], pa.time64("us")), (-662762989) & 0x7FFFFFFF),
        (pa.array([dt.datetime(2017, 11, 16, 22, 31, 8)], pa.timestamp("us")), (-2047944441) & 0x7FFFFFFF),
        (pa.array(["iceberg"]), 1210000089),
        (pa.array([bytes([0, 1, 2, 3])]), (-188683207) & 0x7FFFFFFF),
        (pa.array([uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7").bytes], pa.binary(16)), 1488055340),
    ]
    assert [partition_values(column, buckets)[0].as_py() for column, _ in cases] == [wanted for _, wanted in cases]


@pytest.mark.parametrize(
    ("column", "transform"),
    [
        (pa.array([1.5]), "bucket[4]"),
        (pa.array([True]), "bucket[4]"),
        (pa.array(["a"]), "day"),
        (pa.array([1]), "year"),
        (pa.array([dt.date(2020, 1, 1)]), "hour"),
        (pa.array([1.5]), "truncate[3]"),
        (pa.array([1]), "bucket[0]"),
        (pa.array([1]), "zorder"),
    ],
)
def test_transform_that_is_not_for_a_type_is_refused(column: pa.Array, transform: str) -> None:
    with pytest.raises(DataError, match="transform"):
        partition_values(column, transform)


FIELDS = [
    ("id", pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    ("name", pa.string(), st.none() | st.text(max_size=24)),
    ("region", pa.string(), st.none() | st.sampled_from(["eu", "us", "a/b c"])),
    ("ratio", pa.float64(), st.none() | st.floats()),
    ("price", pa.decimal128(20, 3), st.none() | st.decimals(-(10**9), 10**9, places=3)),
    ("born", pa.date32(), st.none() | st.dates()),
    ("at", pa.timestamp("us", "UTC"), st.none() | MOMENTS.map(lambda it: it.replace(tzinfo=dt.UTC))),
    ("flag", pa.bool_(), st.none() | st.booleans()),
    ("data", pa.binary(), st.none() | st.binary(max_size=24)),
    ("tags", pa.list_(pa.field("element", pa.string())), st.none() | st.lists(st.text(max_size=3), max_size=3)),
    (
        "inner",
        pa.struct([pa.field("a", pa.int32()), pa.field("b", pa.string())]),
        st.none() | st.fixed_dictionaries({"a": st.none() | st.integers(-5, 5), "b": st.none() | st.text(max_size=20)}),
    ),
    (
        "counts",
        pa.map_(pa.string(), pa.int64()),
        st.none()
        | st.dictionaries(st.text(max_size=3), st.integers(0, 9), max_size=2).map(lambda it: list(it.items())),
    ),
]


def with_ids(schema: pa.Schema) -> pa.Schema:
    """Give each field an id, nested fields, too."""
    numbers = itertools.count(1)

    def of(member: pa.Field) -> pa.Field:
        member = member.with_metadata({"PARQUET:field_id": str(next(numbers))})
        kind = member.type
        if pa.types.is_struct(kind):
            return member.with_type(pa.struct([of(part) for part in kind]))
        if pa.types.is_map(kind):
            return member.with_type(pa.map_(of(kind.key_field), of(kind.item_field)))
        return member.with_type(pa.list_(of(kind.value_field))) if pa.types.is_list(kind) else member

    return pa.schema([of(member) for member in schema])


SCHEMA = with_ids(pa.schema([pa.field(name, kind, name != "id") for name, kind, _ in FIELDS]))
UPPERLESS = {2, 3, 9, 14}  # of texts and bytes, where no short one is larger
IN_LISTS = {11, 16, 17}
PARTITIONINGS = [
    [],
    [PartitionField("region", "identity", "region")],
    [PartitionField("id", "bucket[4]", "id_bucket"), PartitionField("at", "month", "at_month")],
    [PartitionField("inner.b", "truncate[1]", "b"), PartitionField("flag", "identity", "flag")],
]
ROW = st.fixed_dictionaries({name: values for name, _, values in FIELDS})


def target(folder: Path) -> FileTarget:
    numbers = itertools.count()
    return FileTarget(fs.LocalFileSystem(), folder.as_uri(), lambda: f"part-{next(numbers)}")


def read(file: WrittenFile) -> pa.Table:
    return pq.ParquetFile(path_in_file_system(file.path)).read()


@given(rows=st.lists(ROW, min_size=1, max_size=25), partitioning=st.sampled_from(PARTITIONINGS), small=st.booleans())
@EXAMPLES
def test_files_hold_the_rows_of_their_partition(
    tmp_path: Path, rows: list[dict[str, Any]], partitioning: list[PartitionField], small: bool
) -> None:
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    sizes = FileSettings(target_bytes=600, row_group_bytes=200) if small else FileSettings()
    written = write_data_files(table, partitioning, target(tmp_path), sizes)
    numbers = np.concatenate([file.source_rows for file in written if file.source_rows is not None])
    assert sorted(numbers.tolist()) == list(range(len(rows)))
    for file in written:
        found, expected = read(file), table.take(file.source_rows)
        assert repr(found.to_pylist()) == repr(expected.to_pylist())  # NaN included
        assert (np.diff(file.source_rows) > 0).all()
        assert file.rows == found.num_rows
        assert file.size == Path(path_in_file_system(file.path)).stat().st_size
        for number, field in enumerate(partitioning):
            column = expected
            for name in field.source.split("."):
                column = column[name] if isinstance(column, pa.Table) else pc.struct_field(column, name)
            of_rows = internal(partition_values(column.combine_chunks(), field.transform))
            assert set(of_rows) == {file.partition[number]}
    if not small:
        assert len({file.partition for file in written}) == len(written)


@given(rows=st.lists(ROW, min_size=1, max_size=25), small=st.booleans())
@EXAMPLES
def test_statistics_are_those_of_pyiceberg(tmp_path: Path, rows: list[dict[str, Any]], small: bool) -> None:
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    sizes = FileSettings(row_group_bytes=200) if small else FileSettings()
    (file,) = write_data_files(table, [], target(tmp_path), sizes)
    schema = pyarrow_to_schema(SCHEMA)
    metadata = pq.read_metadata(path_in_file_system(file.path))
    theirs = data_file_statistics_from_parquet_metadata(
        metadata, compute_statistics_plan(schema, {}), parquet_path_to_id_mapping(schema)
    )
    serialized = theirs.to_serialized_dict()
    assert file.column_sizes == theirs.column_sizes
    assert file.value_counts == theirs.value_counts
    assert file.null_counts == theirs.null_value_counts
    assert list(file.split_offsets) == theirs.split_offsets
    assert file.nan_counts == {4: sum(1 for row in rows if row["ratio"] is not None and row["ratio"] != row["ratio"])}
    for ours, bounds in ((file.lower_bounds, "lower_bounds"), (file.upper_bounds, "upper_bounds")):
        expected = serialized[bounds]
        shared = ours.keys() & expected.keys()  # pyiceberg has no bounds of a column of empty texts
        assert {key: ours[key] for key in shared} == {key: expected[key] for key in shared}
        assert expected.keys() - ours.keys() <= UPPERLESS | IN_LISTS
    for leaf in ("id", "name", "price", "born", "at", "data"):
        number = SCHEMA.names.index(leaf) + 1
        values = [row[leaf] for row in rows if row[leaf] is not None]
        if not values:
            assert number not in file.lower_bounds
            continue
        kind = schema.find_type(number)
        least = from_bytes(kind, file.lower_bounds[number])
        shown = internal(pa.array(values, SCHEMA.field(leaf).type))
        assert least <= min(shown, key=_order)
        if number in file.upper_bounds:
            assert max(shown, key=_order) <= from_bytes(kind, file.upper_bounds[number])


def _order(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value


def bounds_of(values: list[Any], kind: pa.DataType, tmp_path: Path, mode: str = "truncate(4)") -> tuple[Any, Any]:
    schema = pa.schema([pa.field("a", kind, metadata={"PARQUET:field_id": "7"})])
    (file,) = write_data_files(
        pa.table([pa.array(values, kind)], schema=schema), [], target(tmp_path), FileSettings(metrics={7: mode})
    )
    return file.lower_bounds.get(7), file.upper_bounds.get(7)


def test_bounds_of_texts_are_shortened_upwards_and_downwards(tmp_path: Path) -> None:
    top, below_surrogates = chr(0x10FFFF), chr(0xD7FF)
    assert bounds_of(["abcdef", "abcxyz"], pa.string(), tmp_path) == (b"abcd", b"abcy")
    assert bounds_of(["abcd"], pa.string(), tmp_path) == (b"abcd", b"abcd")
    assert bounds_of([f"abc{top}z"], pa.string(), tmp_path) == (f"abc{top}".encode(), b"abd")
    assert bounds_of([top * 5], pa.string(), tmp_path) == ((top * 4).encode(), None)
    assert bounds_of([f"abc{below_surrogates}z"], pa.string(), tmp_path)[1] == "abc\ue000".encode()
    assert bounds_of([b"\xff" * 5, b"\x01\xff\xff\xff\x02"], pa.binary(), tmp_path) == (b"\x01\xff\xff\xff", None)
    assert bounds_of([b"\x01\xff\xff\xff\x02"], pa.binary(), tmp_path) == (b"\x01\xff\xff\xff", b"\x02")
    assert bounds_of(["x" * 9000, None], pa.string(), tmp_path, "full") == (b"x" * 9000, b"x" * 9000)
    assert bounds_of(["x" * 9000, "y"], pa.large_string(), tmp_path) == (b"xxxx", b"y")
    assert bounds_of(["a"], pa.string(), tmp_path, "counts") == (None, None)
    assert bounds_of([None], pa.string(), tmp_path) == (None, None)


@given(
    dead=st.dictionaries(
        st.sampled_from(["file:///t/b.parquet", "file:///t/a.parquet", "file:///t/\u00e4" + "x" * 40]),
        st.sets(st.integers(0, 2**40), min_size=1, max_size=20).map(lambda rows: np.array(sorted(rows), np.int64)),
        min_size=1,
    )
)
@EXAMPLES
def test_position_deletes_are_sorted_and_bounded_in_full(tmp_path: Path, dead: dict[str, Any]) -> None:
    file = write_position_deletes(dead, ("eu",), target(tmp_path), FileSettings())
    found = read(file)
    assert [(row["file_path"], row["pos"]) for row in found.to_pylist()] == [
        (path, row) for path in sorted(dead) for row in dead[path].tolist()
    ]
    assert found.schema.field("file_path").type == pa.string()
    ids = [int(field.metadata[b"PARQUET:field_id"]) for field in found.schema]
    assert ids == [2147483546, 2147483545]
    assert [field.nullable for field in found.schema] == [False, False]
    assert (file.lower_bounds[ids[0]], file.upper_bounds[ids[0]]) == (min(dead).encode(), max(dead).encode())
    every = np.concatenate(list(dead.values()))
    assert (file.lower_bounds[ids[1]], file.upper_bounds[ids[1]]) == (
        int(every.min()).to_bytes(8, "little"),
        int(every.max()).to_bytes(8, "little"),
    )
    assert (file.rows, file.partition, file.value_counts) == (len(every), ("eu",), dict.fromkeys(ids, len(every)))


def test_many_partitions_get_a_file_each(tmp_path: Path) -> None:
    schema = with_ids(pa.schema([pa.field("id", pa.int64())]))
    table = pa.table([pa.array(np.arange(900) % 300)], schema=schema)
    written = write_data_files(table, [PartitionField("id", "identity", "id")], target(tmp_path), FileSettings())
    assert [file.partition for file in written] == [(number,) for number in range(300)]
    assert all(file.rows == 3 for file in written)


@pytest.mark.parametrize("together", [20_000, 9])
def test_repeated_values_get_a_dictionary_and_unique_ones_do_not(together: int, tmp_path: Path) -> None:
    """In a table of one chunk, and of many small ones."""
    schema = with_ids(pa.schema([pa.field("unique", pa.string()), pa.field("repeated", pa.string())]))
    numbers = np.arange(20_000)
    table = pa.table([pa.array(numbers).cast(pa.string()), pa.array(numbers % 50).cast(pa.string())], schema=schema)
    table = pa.Table.from_batches(table.to_batches(max_chunksize=together))
    (file,) = write_data_files(table, [], target(tmp_path), FileSettings())
    columns = [pq.read_metadata(path_in_file_system(file.path)).row_group(0).column(at) for at in (0, 1)]
    assert [column.dictionary_page_offset is not None for column in columns] == [False, True]


def test_field_without_an_id_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="column a has no field id"):
        write_data_files(pa.table({"a": [1]}), [], target(tmp_path), FileSettings())


def test_folders_and_paths_of_object_stores() -> None:
    fields = [PartitionField("r", "identity", "r"), PartitionField("t", "hour", "t"), PartitionField("d", "month", "m")]
    assert partition_folder(fields, ("a/b c", 0, -1)) == "r=a%2Fb%20c/t=1970-01-01-00/m=1969-12"
    assert partition_folder([PartitionField("t", "day", "d")], (None,)) == "d=null"
    assert partition_folder([PartitionField("t", "day", "d")], (20_000,)) == "d=2024-10-04"
    assert path_in_file_system("s3://bucket/a/b") == "bucket/a/b"
    assert path_in_file_system("abfss://box@account.dfs.core.windows.net/a") == "box/a"
    assert path_in_file_system("file:///tmp/a b") == "/tmp/a b"
    assert path_in_file_system("/tmp/a") == "/tmp/a"
