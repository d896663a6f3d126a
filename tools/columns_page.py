"""The page that says which bundled plug-ins go by Arrow columns and which record by record, and why.

Whether a sink, converter or transformation has a column form is asked of its class; the reasons are here, and a reason
too many or too few is an error. What a source returns cannot be asked: it is said here, for each of them.
"""

from __future__ import annotations

from typing import Any

from spark_connect_rt.api.connector import SparkSinkTask
from spark_connect_rt.api.converter import Converter
from spark_connect_rt.api.task import SinkTask
from spark_connect_rt.plugins.bundled_plugins import BUNDLED
from spark_connect_rt.transforms.columns.by_columns import has_column_form

_COLUMNS, _ROWS, _SPARK = "columns", "record by record", "Spark's batches"
_SOURCES = {
    "FileStreamSourceConnector": (_COLUMNS, ""),
    "DelimitedFileSourceConnector": (_COLUMNS, ""),
    "DirectorySourceConnector": (_COLUMNS, "Parquet with maps: record by record, as maps have no column form"),
    "KafkaSourceConnector": (_COLUMNS, ""),
    "MirrorSourceConnector": (_COLUMNS, ""),
    "SparkFormatSourceConnector": (_SPARK, ""),
    "DatagenSourceConnector": (_COLUMNS, ""),
    "SqlSourceConnector": (_COLUMNS, "by ADBC; without its driver, rows of the database's own driver are made columns"),
    "SingerSourceConnector": (_COLUMNS, "deletions, and streams without a schema, record by record"),
    "AirbyteSourceConnector": (_COLUMNS, "deletions, and streams without a schema, record by record"),
    "DltSourceConnector": (_COLUMNS, "rows that fit no column are records of their own"),
    "LakeflowSourceConnector": (_COLUMNS, "rows that fit no column are records of their own"),
    "HttpSourceConnector": (_ROWS, "a page of an answer has some hundred records; the request costs more than they"),
    "MirrorHeartbeatConnector": (_ROWS, "one record a second"),
    "MirrorCheckpointConnector": (_ROWS, "one record a group and partition, a minute"),
    "VerifiableSourceConnector": (_ROWS, "for tests, as Kafka's own"),
    "SchemaSourceConnector": (_ROWS, "for tests, as Kafka's own"),
    "MockSourceConnector": (_ROWS, "for tests, as Kafka's own: it makes none"),
}
_SINKS = {
    "HttpSinkConnector": "a request for each record, or a body of some; the request costs more than they",
    "VerifiableSinkConnector": "for tests, as Kafka's own",
    "MockSinkConnector": "for tests, as Kafka's own",
}
_CONVERTERS: dict[tuple[str, str], str] = {}  # all have both
_TRANSFORMATIONS: dict[str, str] = {}  # all have
_CONDITIONS = """
## When columns go record by record all the same

The result is the same either way; only CPU differs. A batch goes record by record when

- any part on its way has no column form: the connector, a transformation of the chain, a converter;
- headers are for a sink that reads them: columns have those that were consumed, by ByteArrayConverter, for KafkaSink,
  and never those that a transformation added; or a plug-in of your own does not say `takes_headers`;
- a predicate holds for some records of it only, and the transformation is another one than Filter;
- a value has no column form: maps, arrays and structs in structs where a converter or sink takes flat ones only,
  JSON of which each record has other fields, unions of Avro and of JSON Schema (oneOf) of more than null and one type;
- fewer than 16 Avro payloads are read at once, or payloads with a registry's id name several schemas;
- JsonSchemaConverter holds each value against its schema (`json.fail.invalid.schema`), or reads decimals as numbers;
- Protobuf has a field that is a message (times and decimals are), an enum, a list, a map or a union: flat messages go
  by columns, though Google's library makes and reads each of them by itself;
- something in it failed: record by record finds the one to blame, for `errors.tolerance` and the dead letter queue;
- the task asks for a delivery report of each record (`commit_record` with metadata), or a producer or consumer
  setting is one that only librdkafka knows: the log names it.

What a record costs either way: `./bench.sh convert`.
"""


def columns_page(made_by: str) -> str:
    """Return the page."""
    return "\n".join((
        f"# Columns or records\n\n{made_by}\n",
        "Which bundled plug-ins take and give whole columns of Arrow, and which go record by record, and why.\n",
        f"## Sources\n\n{_table(_sources())}",
        f"## Sinks\n\n{_table(_sinks())}",
        f"## Converters\n\n{_table(_converters(), 'Converter', 'Written', 'Read', 'Why')}",
        f"## Transformations\n\n{_table(_transformations())}",
    )) + _CONDITIONS  # fmt: skip


def _classes(kind: str) -> list[tuple[str, type[Any]]]:
    found = {plugin.java_class.rpartition(".")[2]: plugin.cls for plugin in BUNDLED if plugin.type == kind}
    return sorted(found.items())


def _sources() -> list[tuple[str, ...]]:
    names = [name for name, _ in _classes("source")]
    _check("source", names, _SOURCES)
    return [(name, *_SOURCES[name]) for name in names]


def _sinks() -> list[tuple[str, ...]]:
    rows, without = list[tuple[str, ...]](), list[Any]()
    for name, cls in _classes("sink"):
        task = cls().task_class()
        if issubclass(task, SparkSinkTask):
            rows.append((name, _SPARK, ""))
        elif task.put_batch is not SinkTask.put_batch:
            rows.append((name, _COLUMNS, ""))
        else:
            without.append(name)
            rows.append((name, _ROWS, _SINKS.get(name, "")))
    _check("sink", without, _SINKS)
    return rows


def _converters() -> list[tuple[str, ...]]:
    rows, without = list[tuple[str, ...]](), list[Any]()
    for name, cls in _classes("converter"):
        ways = {
            "written": cls.column_from_connect_data is not Converter.column_from_connect_data,
            "read": cls.column_to_connect_data is not Converter.column_to_connect_data,
        }
        missing = [(name, way) for way, has in ways.items() if not has]
        without += missing
        reasons = dict.fromkeys(_CONVERTERS.get(converter, "") for converter in missing)
        rows.append((name, *(_COLUMNS if has else _ROWS for has in ways.values()), "; ".join(reasons)))
    _check("converter", without, _CONVERTERS)
    return rows


def _transformations() -> list[tuple[str, ...]]:
    has = {name.partition("$")[0]: has_column_form(cls) for name, cls in _classes("transformation")}
    _check("transformation", [name for name, columnar in has.items() if not columnar], _TRANSFORMATIONS)
    return [(name, _COLUMNS if columnar else _ROWS, _TRANSFORMATIONS.get(name, "")) for name, columnar in has.items()]


def _check(kind: str, without: list[Any], reasons: dict[Any, Any]) -> None:
    """Raise LookupError when a reason is missing, or given for what needs none."""
    if differing := set(without) ^ set(reasons):
        raise LookupError(f"tools/columns_page.py says of another {kind} than there is: {sorted(differing)}")


def _table(rows: list[tuple[str, ...]], *titles: str) -> str:
    titles = titles or ("Plug-in", "Goes by", "Why, or when not")
    lines = [f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]
    return "\n".join([*lines, *(f"| `{name}` | {' | '.join(rest)} |" for name, *rest in rows)]) + "\n"
