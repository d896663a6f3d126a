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
from spark_connect_rt.records.transforms.column_forms import has_column_form

_COLUMNS, _ROWS, _SPARK = "columns", "record by record", "Spark's batches"
_SOURCES = {
    "FileStreamSourceConnector": (_COLUMNS, ""),
    "DelimitedFileSourceConnector": (_COLUMNS, ""),
    "DirectorySourceConnector": (_COLUMNS, "Parquet with maps goes record by record, because maps have no column form"),
    "KafkaSourceConnector": (_COLUMNS, ""),
    "MirrorSourceConnector": (_COLUMNS, ""),
    "SparkFormatSourceConnector": (_SPARK, ""),
    "DatagenSourceConnector": (_COLUMNS, ""),
    "SqlSourceConnector": (
        _COLUMNS,
        "with ADBC. Without its driver, rows of the database's driver are made into columns.",
    ),
    "SingerSourceConnector": (_COLUMNS, "deletions and streams without a schema go record by record"),
    "AirbyteSourceConnector": (_COLUMNS, "deletions and streams without a schema go record by record"),
    "DltSourceConnector": (_COLUMNS, "a row that fits no column becomes a separate record"),
    "LakeflowSourceConnector": (_COLUMNS, "a row that fits no column becomes a separate record"),
    "HttpSourceConnector": (_ROWS, "an answer has some hundred records, and the request costs more than they do"),
    "MirrorHeartbeatConnector": (_ROWS, "one record a second"),
    "MirrorCheckpointConnector": (_ROWS, "one record for each group and partition a minute"),
    "VerifiableSourceConnector": (_ROWS, "for tests, as Kafka's own"),
    "SchemaSourceConnector": (_ROWS, "for tests, as Kafka's own"),
    "MockSourceConnector": (_ROWS, "for tests, as Kafka's own. It makes no records."),
}
_SINKS = {
    "HttpSinkConnector": "a request carries one or some records, and costs more than they do",
    "VerifiableSinkConnector": "for tests, as Kafka's own",
    "MockSinkConnector": "for tests, as Kafka's own",
}
_CONVERTERS: dict[tuple[str, str], str] = {}  # all have both
_TRANSFORMATIONS: dict[str, str] = {}  # all have
_CASES = (
    ("A part without a column form", "the connector, a transformation of the chain or a converter"),
    (
        "Headers, for a sink that reads them",
        "columns keep only headers that were consumed, by ByteArrayConverter, for KafkaSink, and none that a "
        "transformation added. The same if your own plug-in does not declare `takes_headers`.",
    ),
    ("A predicate that holds for some records only", "unless the transformation is Filter"),
    (
        "A value without a column form",
        "maps, arrays and structs in structs unless the converter is JSON or Avro and the sink takes them "
        "(IcebergSink, DeltaSink), JSON whose records have different fields, unions (Avro, JSON Schema) of more than "
        "null and one type",
    ),
    ("Few Avro payloads", "fewer than 16 at once, or payloads with several schema ids"),
    ("JsonSchemaConverter that validates", "`json.fail.invalid.schema`, or decimals that are read as numbers"),
    (
        "Protobuf with nested types",
        "messages (except times and decimals), enums, lists, maps, unions. Flat messages go by columns, although "
        "Google's library handles each of them.",
    ),
    ("A failure", "the bad record is searched, for `errors.tolerance` and the dead letter queue"),
    ("A client setting that only librdkafka knows", "of a producer or consumer. The log names it."),
    ("`commit_record` in an exactly-once source", "it needs a delivery report for each record"),
)
_CONDITIONS = "\n".join((
    "\n## When a batch goes record by record all the same\n",
    "The result is equal either way, only the CPU cost differs.",
    "A batch goes record by record in these cases:\n",
    "| Cause | Details |\n|---|---|",
    *(f"| {cause} | {details} |" for cause, details in _CASES),
    "\n`./bench.sh convert` measures what a record costs either way.\n",
))  # fmt: skip


def columns_page(made_by: str) -> str:
    """Return the page."""
    return "\n".join((
        f"# Columns or records\n\n{made_by}\n",
        "This page lists which bundled plug-ins process whole Arrow columns, and which work record by record.\n",
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
