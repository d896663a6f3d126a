"""The verdict of `ObjectStoreSink` on each setting of Confluent's S3 sink. Pure.

The verdict on settings that both have is that of `settings.py`. The names are those of Confluent's documentation of its
S3 sink, "Configuration Reference".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from spark_connect_rt.connectors.lakehouse.official_sink import SettingFate, TakenSetting
from spark_connect_rt.connectors.object_store.settings import CONFIG, PARTITIONER_CLASSES
from spark_connect_rt.connectors.object_store.sink_connector import ObjectStoreSinkConnector

_REFERENCE = "${"
_CLIENT = "the client of the store has its own limits and retries"
_MEMORY = "files are gathered in memory and written by one request. See connectrt.object.max.bytes"
_IGNORED: Mapping[str, str] = {
    "storage.class": "path or s3.bucket.name says which store it is",
    "s3.part.size": _MEMORY,
    "s3.elastic.buffer.enable": _MEMORY,
    "s3.elastic.buffer.init.capacity": _MEMORY,
    "s3.part.retries": f"{_CLIENT}. See connectrt.object.retry.timeout.ms",
    "s3.retry.backoff.ms": f"{_CLIENT}. See connectrt.object.retry.timeout.ms",
    "retry.backoff.ms": f"{_CLIENT}. See connectrt.object.retry.timeout.ms",
    "s3.http.send.expect.continue": _CLIENT,
    "s3.wan.mode": _CLIENT,
    "schemas.cache.config": "schemas are compared, not cached",
    "schema.cache.size": "schemas are compared, not cached",
    "enhanced.avro.schema.support": "Avro schemas are written as AvroConverter reads them",
    "connect.meta.data": "Avro files keep Connect's schema properties",
    "rotate.file.on.partition.change": "the files of all folders of a topic partition end together",
    "max.written.per.partition.ms": "files end by flush.size, rotate.interval.ms and rotate.schedule.interval.ms",
    "json.decimal.format": "decimals are written as base64",
    "report.nulls.only.to.dlq": "errors.tolerance decides",
    "value.subject.name.strategy": "the converter's own setting counts",
}
_REFUSED: Mapping[str, tuple[tuple[str, ...], str]] = {
    "schema.compatibility": (("none",), "records of another schema always begin new files. Set NONE"),
    "directory.delim": (("/",), "folders are always divided by /"),
    "s3.object.tagging": (("false",), "objects get no tags"),
    "s3.acl.canned": (("",), "objects get the bucket's own permissions"),
    "s3.ssea.name": (("", "aes256"), "set the encryption as the bucket's default"),
    "s3.sse.customer.key": (("",), "keys of customers are not supported. Set the encryption as the bucket's default"),
    "s3.sse.kms.key.id": (("",), "set the key as the bucket's default encryption"),
    "s3.proxy.url": (("",), "set the proxy by the environment, HTTPS_PROXY"),
    "s3.credentials.provider.class": (
        ("", "com.amazonaws.auth.defaultawscredentialsproviderchain"),
        "set aws.access.key.id, or let the machine, pod or container have a role",
    ),
    "tombstone.encoded.partition": (("",), "records without a value are not written. Set behavior.on.null.values"),
    "headers.format.class": (("io.confluent.connect.s3.format.json.jsonformat",), "headers are always JSON lines"),
    "allow.optional.map.keys": (("false",), "keys of maps in Avro are never optional"),
}
"""Setting -> values that mean what the sink does anyway, in lower case, and why others are refused."""
_DEFAULTS = {
    "timestamp.extractor": (
        "the default here is Record. The default of Confluent's sink is Wallclock, with which files are not exact"
    ),
    "rotate.schedule.interval.ms": "the default here is 600000. Confluent's sink never writes files by the clock",
}


def taken_settings(config: Mapping[str, str]) -> Sequence[TakenSetting]:
    """Return the verdict on each setting of the sink, in the order of the configuration.

    Defaults that differ, and settings that are missing, come last. A value that refers to a config provider is not
    checked.
    """
    known = {name: config[name] for name in config if name in CONFIG}
    problems = {value.name: value.errors for value in CONFIG.validate(known) if value.errors}
    refused: Mapping[str, Sequence[str]] = problems or ObjectStoreSinkConnector().validate(known)
    found = [
        taken
        for name, value in config.items()
        if (taken := _verdict(name, (value or "").strip(), refused.get(name, ()))) is not None
    ]
    for name, reason in _DEFAULTS.items():
        if name not in config and (name != "timestamp.extractor" or _is_by_time(config)):
            found.append(TakenSetting(name, SettingFate.DIFFERS, reason))
    missing = [name for name in refused if name not in config]
    return [*found, *(TakenSetting(name, SettingFate.REFUSED, " ".join(refused[name])) for name in missing)]


def _verdict(name: str, value: str, problems: Sequence[str]) -> TakenSetting | None:
    """Return the verdict on a setting, None if it is not one of the sink's own."""
    if name in _IGNORED:
        return TakenSetting(name, SettingFate.IGNORED, f"it has no effect: {_IGNORED[name]}")
    if name in _REFUSED:
        same, reason = _REFUSED[name]
        if value.lower() in same or _REFERENCE in value:
            return TakenSetting(name, SettingFate.IGNORED, "it has no effect: the sink does that anyway")
        return TakenSetting(name, SettingFate.REFUSED, f"ObjectStoreSink cannot do that: {reason}")
    if name in CONFIG:
        if problems and _REFERENCE not in value:
            return TakenSetting(name, SettingFate.REFUSED, f"ObjectStoreSink refuses it: {' '.join(problems)}")
        return TakenSetting(name, SettingFate.HONOURED, "ObjectStoreSink honours it")
    if name.startswith("s3."):
        return TakenSetting(name, SettingFate.IGNORED, "ObjectStoreSink has no such setting")
    return None


def _is_by_time(config: Mapping[str, str]) -> bool:
    given = config.get("partitioner.class", "")
    return PARTITIONER_CLASSES.get(given, given) in ("time", "hourly", "daily")


def differences(config: Mapping[str, str]) -> Mapping[str, str]:
    """Return what differs in guarantees, and how the offsets pass from Confluent's sink: subject -> sentences."""
    return {
        "exactly once": (
            "files are created only if they do not exist, with the range of their offsets, so a file is never "
            "overwritten, and cuts by the clock are exact, too. Confluent's sink writes the same names and overwrites"
        ),
        "files": (
            "flush.size and rotate.interval.ms count the records of a topic partition, of all its folders together. "
            "rotate.interval.ms does not end files at the border of a folder"
        ),
        "offsets": (
            "keep the connector's name: the sink continues at the offsets of its consumer group. Pause the connector "
            "and wait for a commit before you replace it. Else a file that Confluent's sink has written and not "
            "committed stops the task, which names it"
        ),
    }
