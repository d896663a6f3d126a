"""Chains of transformations before a converter: the columns of a batch are written as its rows are, one by one."""

from __future__ import annotations

import os
from typing import Any

import pyarrow as pa
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from spark_connect_rt.api.records import SourceBatch
from spark_connect_rt.errors import ConnectError
from spark_connect_rt.plugins.bundled_plugins import bundled_plugins
from spark_connect_rt.records.pipeline.source_pipeline import SourcePipeline
from tests.property.test_transforms import NAMES, TYPES, batches, rows_of
from tests.suite.steps import SCHEDULES as LONG

PLUGINS = bundled_plugins()
FIELD = st.sampled_from([*NAMES, "zzz"])
CONVERTERS: tuple[dict[str, str], ...] = (
    {"converter": "JsonConverter", "converter.schemas.enable": "true"},
    {"converter": "JsonConverter", "converter.schemas.enable": "false"},
    {"converter": "StringConverter"},
)


def transformation(kind: str, **settings_of: st.SearchStrategy[str] | str) -> st.SearchStrategy[dict[str, str]]:
    drawn = {
        name.replace("_", "."): value if isinstance(value, st.SearchStrategy) else st.just(value)
        for name, value in settings_of.items()
    }
    return st.fixed_dictionaries({"type": st.sampled_from([f"{kind}$Value", f"{kind}$Key"]), **drawn})


BOOLEAN = st.sampled_from(["true", "false"])
TRANSFORMATIONS = st.one_of(
    transformation(
        "Cast", spec=st.tuples(FIELD, st.sampled_from(TYPES)).map(":".join), replace_null_with_default=BOOLEAN
    ),
    transformation("InsertField", partition_field=st.sampled_from(["p", "p!", "a"]), replace_null_with_default=BOOLEAN),
    transformation("InsertField", timestamp_field=st.sampled_from(["ts", "ts!"]), topic_field="topic"),
    transformation(
        "ReplaceField",
        exclude=st.sampled_from(["", *NAMES]),
        include=st.sampled_from(["", "", "a,b"]),
        renames=st.sampled_from(["", "a:b", "a:z", "a:b,b:a", "b:c"]),
        replace_null_with_default=BOOLEAN,
    ),
    transformation("MaskField", fields=FIELD, replace_null_with_default=BOOLEAN),
    transformation("ExtractField", field=FIELD, replace_null_with_default=BOOLEAN),
    transformation("HoistField", field="h"),
    transformation("Flatten", delimiter="_"),
    transformation("SetSchemaMetadata", schema_name="q", schema_version="4"),
    transformation("TimestampConverter", field=FIELD, target_type="string", format="yyyy-MM-dd HH:mm:ss.SSS"),
    transformation("HeaderFrom", fields="a,b", headers="H,I", operation=st.sampled_from(["move", "copy"])),
)


@settings(deadline=None, max_examples=1_000 if LONG in os.environ else 60)
@given(
    batches(),
    st.lists(TRANSFORMATIONS, min_size=1, max_size=2),
    st.sampled_from(CONVERTERS),
    st.sampled_from(CONVERTERS),
)
def test_columns_behind_a_chain_are_written_as_rows(
    batch: SourceBatch, chain: list[dict[str, str]], keys: dict[str, str], values: dict[str, str]
) -> None:
    # Rows know no float32 without a schema: 0.05 is 0.05000000074505806 there.
    assume(batch.value_schema is not None or pa.float32() not in [field.type for field in batch.values.type])
    config = {"transforms": ",".join(f"t{at}" for at in range(len(chain)))}
    for at, step in enumerate(chain):
        config |= {f"transforms.t{at}.{name}": text for name, text in step.items()}
    worker = {f"key.{name}": text for name, text in keys.items()} | {f"value.{n}": text for n, text in values.items()}
    pipeline = SourcePipeline.from_config(config, worker, PLUGINS.class_of)
    try:
        columns = pipeline._columns(batch)
    except ConnectError:  # then its rows are asked, and the record to blame is found
        return
    if columns is None:
        return
    rows, _, errants = pipeline.convert_rows(rows_of(batch))
    assert errants == ()
    assert written(columns) == written(rows)


def written(batch: Any) -> list[Any]:
    return [
        (row.get("key"), row.get("value"), row.get("timestamp"), row.get("headers") or []) for row in batch.to_pylist()
    ]
