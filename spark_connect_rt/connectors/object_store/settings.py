"""Settings of the object store sink, under the names of Confluent's S3 sink.

Formats and partitioners have short names. The class names of Confluent's sink mean the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from spark_connect_rt.config.config_def import HIGH, LOW, MEDIUM, ConfigDef, ConfigKey, Type
from spark_connect_rt.config.validators import AtLeast, Between, non_empty, one_of
from spark_connect_rt.connectors.file_stores import STORE_ACCESS, uri_problem
from spark_connect_rt.connectors.object_store.formats import (
    AVRO,
    CSV,
    JSON_LINES,
    PARQUET,
    Avro,
    Csv,
    JsonLines,
    Parquet,
    RowFormat,
)
from spark_connect_rt.connectors.object_store.partitioners import TimeFolders, TimeSource, parsed_path_format
from spark_connect_rt.errors import BadConfigError

DEFAULT, FIELD, TIME, HOURLY, DAILY = "default", "field", "time", "hourly", "daily"
FAIL, IGNORE = "fail", "ignore"
NEVER = -1
_HOUR_MS, _DAY_MS = 3_600_000, 86_400_000
_PRESETS = {
    HOURLY: ("'year'=YYYY/'month'=MM/'day'=dd/'hour'=HH", _HOUR_MS),
    DAILY: ("'year'=YYYY/'month'=MM/'day'=dd", _DAY_MS),
}
_CONFLUENT = "io.confluent.connect"
FORMAT_CLASSES = {
    f"{_CONFLUENT}.s3.format.json.JsonFormat": JSON_LINES,
    f"{_CONFLUENT}.s3.format.parquet.ParquetFormat": PARQUET,
    f"{_CONFLUENT}.s3.format.avro.AvroFormat": AVRO,
}
PARTITIONER_CLASSES = {
    f"{_CONFLUENT}.storage.partitioner.DefaultPartitioner": DEFAULT,
    f"{_CONFLUENT}.storage.partitioner.FieldPartitioner": FIELD,
    f"{_CONFLUENT}.storage.partitioner.TimeBasedPartitioner": TIME,
    f"{_CONFLUENT}.storage.partitioner.HourlyPartitioner": HOURLY,
    f"{_CONFLUENT}.storage.partitioner.DailyPartitioner": DAILY,
}
_FORMATS, _PARTITIONERS = (PARQUET, JSON_LINES, CSV, AVRO), (DEFAULT, FIELD, TIME, HOURLY, DAILY)


def _known(words: tuple[str, ...], classes: Mapping[str, str]) -> Callable[[Any], str | None]:
    def check(value: Any) -> str | None:
        if value is None or value in classes or str(value).lower() in words:
            return None
        return f"{value} is not supported. Use {', '.join(words)}, or Confluent's class for one of these"

    return check


def _single(value: Any) -> str | None:
    return None if value is not None and len(value) == 1 and value.isascii() else "must be a single ASCII character"


def _span(value: Any) -> str | None:
    return None if value is None or value == NEVER or value > 0 else "must be at least 1, or -1 for never"


CONFIG = (
    ConfigDef(
        [
            ConfigKey(
                "path",
                Type.STRING,
                None,
                HIGH,
                "Root of the files: s3://bucket/folder, gs://bucket, abfs://container@account.dfs.core.windows.net/, "
                "file:///folder or a path. Or set s3.bucket.name.",
                lambda value: None if value is None else uri_problem(value),
            ),
            ConfigKey("s3.bucket.name", Type.STRING, None, HIGH, "S3 bucket, the same as path=s3://BUCKET."),
            ConfigKey(
                "topics.dir", Type.STRING, "topics", HIGH, "Folder below the root, with a folder for each topic."
            ),
            ConfigKey(
                "format.class",
                Type.STRING,
                PARQUET,
                HIGH,
                "parquet, csv and avro: one column for each field. jsonl: one JSON value a line. Confluent's classes "
                "of these formats are accepted.",
                _known(_FORMATS, FORMAT_CLASSES),
            ),
            ConfigKey(
                "partitioner.class",
                Type.STRING,
                DEFAULT,
                HIGH,
                "The folder of a record below its topic's. default: partition=0. field: by partition.field.name. time: "
                "by path.format. daily and hourly: year=2026/month=11/day=27, with hour=09. Confluent's classes are "
                "accepted.",
                _known(_PARTITIONERS, PARTITIONER_CLASSES),
            ),
            ConfigKey(
                "partition.field.name",
                Type.LIST,
                "",
                HIGH,
                "Fields whose values make the folders with partitioner.class=field, with dots for nested fields.",
            ),
            ConfigKey(
                "partition.field.format.path",
                Type.BOOLEAN,
                True,
                LOW,
                "Whether these folders are country=nl, or only nl.",
            ),
            ConfigKey(
                "path.format",
                Type.STRING,
                "",
                HIGH,
                "Folders with partitioner.class=time, such as 'year'=YYYY/'month'=MM/'day'=dd/'hour'=HH.",
                lambda value: _problem_of(parsed_path_format, value) if value else None,
            ),
            ConfigKey(
                "partition.duration.ms",
                Type.LONG,
                NEVER,
                MEDIUM,
                "Times are rounded down to a multiple of this for path.format, ms. -1: they are not rounded.",
                _span,
            ),
            ConfigKey(
                "timezone",
                Type.STRING,
                "UTC",
                HIGH,
                "Time zone of the folders by time, and of rotate.schedule.interval.ms.",
                lambda value: _problem_of(_zone, value) if value else None,
            ),
            ConfigKey("locale", Type.STRING, "en-US", LOW, "No effect: folders contain no names of months or days."),
            ConfigKey(
                "timestamp.extractor",
                Type.STRING,
                TimeSource.RECORD.value,
                MEDIUM,
                "The time of a record. Record: its timestamp in Kafka. RecordField: the field timestamp.field. "
                "Wallclock: when it arrives, so records may be repeated in another folder after a crash.",
                one_of(*(source.value for source in TimeSource)),
            ),
            ConfigKey(
                "timestamp.field",
                Type.STRING,
                "timestamp",
                MEDIUM,
                "Field with the time of RecordField: ms since 1970, a timestamp, or ISO 8601 text.",
            ),
            ConfigKey(
                "flush.size",
                Type.INT,
                100_000,
                HIGH,
                "Records of a topic partition, of all its folders together, after which its files are written.",
                AtLeast(1),
            ),
            ConfigKey(
                "rotate.interval.ms",
                Type.LONG,
                NEVER,
                HIGH,
                "Files end before a record whose time is this much later than that of their first record, ms. -1: "
                "never.",
                _span,
            ),
            ConfigKey(
                "rotate.schedule.interval.ms",
                Type.LONG,
                600_000,
                HIGH,
                "Files are written at every multiple of this by the clock, counted from midnight, ms. -1: never, so "
                "that the last records of a quiet topic are not written.",
                _span,
            ),
            ConfigKey(
                "connectrt.object.max.bytes",
                Type.LONG,
                64 << 20,
                MEDIUM,
                "Bytes of a topic partition's gathered rows in memory after which its files are written.",
                Between(1 << 10, 2 << 30),
            ),
            ConfigKey(
                "connectrt.object.memory.bytes",
                Type.LONG,
                256 << 20,
                MEDIUM,
                "Bytes of all gathered rows of a task after which it writes the files of the largest partition.",
                AtLeast(1 << 10),
            ),
            ConfigKey(
                "connectrt.object.max.folders",
                Type.INT,
                1_000,
                MEDIUM,
                "Folders that gathered records of a topic partition may have before its files are written.",
                AtLeast(1),
            ),
            ConfigKey(
                "connectrt.object.retry.timeout.ms",
                Type.LONG,
                600_000,
                MEDIUM,
                "For how long a store that cannot be reached is tried before the task fails, ms.",
                AtLeast(0),
            ),
            ConfigKey(
                "behavior.on.null.values",
                Type.STRING,
                FAIL,
                MEDIUM,
                "Records without a value, such as tombstones. fail: they are errors, see errors.tolerance. ignore: "
                "they are left out.",
                one_of(FAIL, IGNORE, ignore_case=True),
            ),
            ConfigKey(
                "store.kafka.keys",
                Type.BOOLEAN,
                False,
                MEDIUM,
                "Whether each file gets a second one with the records' keys, NAME.keys.",
            ),
            ConfigKey(
                "keys.format.class",
                Type.STRING,
                JSON_LINES,
                LOW,
                "Format of files with keys, as format.class.",
                _known(_FORMATS, FORMAT_CLASSES),
            ),
            ConfigKey(
                "store.kafka.headers",
                Type.BOOLEAN,
                False,
                MEDIUM,
                "Whether each file gets a second one with the records' headers, NAME.headers.json: a JSON array of "
                "name and value for each record.",
            ),
            ConfigKey(
                "parquet.codec",
                Type.STRING,
                "snappy",
                LOW,
                "Compression of Parquet.",
                one_of("none", "snappy", "gzip", "lz4", "zstd", "brotli", ignore_case=True),
            ),
            ConfigKey(
                "avro.codec",
                Type.STRING,
                "null",
                LOW,
                "Compression of Avro.",
                one_of("null", "deflate", "bzip2", "snappy", ignore_case=True),
            ),
            ConfigKey(
                "s3.compression.type",
                Type.STRING,
                "none",
                LOW,
                "Compression of jsonl and csv, in every store.",
                one_of("none", "gzip", ignore_case=True),
            ),
            ConfigKey(
                "s3.compression.level", Type.INT, NEVER, LOW, "Level of gzip, -1 for its default.", Between(-1, 9)
            ),
            ConfigKey("csv.delimiter", Type.STRING, ",", LOW, "Character between cells.", _single),
            ConfigKey("file.delim", Type.STRING, "+", LOW, "Text between the parts of a file's name.", non_empty),
            ConfigKey(
                "filename.offset.zero.pad.width",
                Type.INT,
                10,
                LOW,
                "Digits of the offset in a file's name.",
                Between(0, 20),
            ),
        ]
    )
    + STORE_ACCESS
)


def _problem_of(parse: Callable[[str], Any], value: str) -> str | None:
    try:
        parse(value)
    except ValueError as error:
        return str(error)
    return None


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ValueError(f"{name} is not a time zone. Use a name such as UTC or Europe/Amsterdam") from error


@dataclass(frozen=True, slots=True)
class ObjectSinkSettings:
    """Typed settings of a task. Durations in ms, `NEVER` for those that are off."""

    root: str
    topics_dir: str
    partitioner: str
    fields: tuple[str, ...]
    with_field_names: bool
    folders: TimeFolders | None
    time_source: TimeSource
    time_field: str
    zone: ZoneInfo
    flush_size: int
    rotate_ms: int
    schedule_ms: int
    max_bytes: int
    memory_bytes: int
    max_folders: int
    retry_timeout_ms: int
    ignores_nulls: bool
    has_keys: bool
    has_headers: bool
    delimiter: str
    digits: int
    values: RowFormat
    keys: RowFormat


def read_settings(config: Mapping[str, str]) -> ObjectSinkSettings:
    """Return the typed settings of a configuration. Raises BadConfigError for each one that is wrong."""
    given = CONFIG.parse(config)
    partitioner = PARTITIONER_CLASSES.get(given["partitioner.class"], given["partitioner.class"].lower())
    problems = _together(given, partitioner)
    if problems:
        raise BadConfigError(problems)
    zone = _zone(given["timezone"])
    return ObjectSinkSettings(
        root=given["path"] or f"s3://{given['s3.bucket.name']}",
        topics_dir=(given["topics.dir"] or "").strip("/"),
        partitioner=partitioner,
        fields=tuple(given["partition.field.name"]),
        with_field_names=given["partition.field.format.path"],
        folders=_time_folders(given, partitioner, zone),
        time_source=TimeSource(given["timestamp.extractor"]),
        time_field=given["timestamp.field"],
        zone=zone,
        flush_size=given["flush.size"],
        rotate_ms=given["rotate.interval.ms"],
        schedule_ms=given["rotate.schedule.interval.ms"],
        max_bytes=given["connectrt.object.max.bytes"],
        memory_bytes=given["connectrt.object.memory.bytes"],
        max_folders=given["connectrt.object.max.folders"],
        retry_timeout_ms=given["connectrt.object.retry.timeout.ms"],
        ignores_nulls=given["behavior.on.null.values"].lower() == IGNORE,
        has_keys=given["store.kafka.keys"],
        has_headers=given["store.kafka.headers"],
        delimiter=given["file.delim"],
        digits=given["filename.offset.zero.pad.width"],
        values=_format(given, given["format.class"]),
        keys=_format(given, given["keys.format.class"]),
    )


def _together(given: Mapping[str, Any], partitioner: str) -> dict[str, list[str]]:
    problems: dict[str, list[str]] = {}
    if bool(given["path"]) == bool(given["s3.bucket.name"]):
        problems["path"] = ["must be set, or s3.bucket.name, but not both"]
    if partitioner == FIELD and not any(given["partition.field.name"]):
        problems["partition.field.name"] = ["must name a field with partitioner.class=field"]
    if partitioner == TIME and not given["path.format"]:
        problems["path.format"] = ["must be set with partitioner.class=time"]
    if bool(given["aws.access.key.id"]) != bool(given["aws.secret.access.key"]):
        problems["aws.secret.access.key"] = ["must be set together with aws.access.key.id"]
    if ".." in given["topics.dir"].split("/"):
        problems["topics.dir"] = ["must not contain .."]
    if "/" in given["file.delim"]:
        problems["file.delim"] = ["must not contain /"]
    return problems


def _time_folders(given: Mapping[str, Any], partitioner: str, zone: ZoneInfo) -> TimeFolders | None:
    if partitioner in (DEFAULT, FIELD):
        return None
    text, duration_ms = _PRESETS.get(partitioner, (given["path.format"], given["partition.duration.ms"]))
    return TimeFolders(parsed_path_format(text), max(1, duration_ms), zone)


def _format(given: Mapping[str, Any], name: str) -> RowFormat:
    kind = FORMAT_CLASSES.get(name, name.lower())
    level = given["s3.compression.level"] if given["s3.compression.type"].lower() == "gzip" else None
    if kind == PARQUET:
        return Parquet(given["parquet.codec"].lower())
    if kind == AVRO:
        return Avro(given["avro.codec"].lower())
    return JsonLines(level=level) if kind == JSON_LINES else Csv(delimiter=given["csv.delimiter"], level=level)


def doubts(config: Mapping[str, str]) -> dict[str, str]:
    """Return warnings for settings that weaken what the sink guarantees, setting -> reason."""
    found: dict[str, str] = {}
    timed = PARTITIONER_CLASSES.get(config.get("partitioner.class", ""), config.get("partitioner.class", ""))
    if timed in (TIME, HOURLY, DAILY) and config.get("timestamp.extractor") == TimeSource.WALL_CLOCK.value:
        found["timestamp.extractor"] = (
            "records that are read again after a crash may get another folder, so they may be in two files. Use Record "
            "or RecordField"
        )
    if config.get("rotate.schedule.interval.ms") == str(NEVER) and config.get("rotate.interval.ms", "-1") == "-1":
        found["rotate.schedule.interval.ms"] = "the last records of a topic are only written when flush.size is reached"
    return found
