"""The bundled plug-ins by name, and the registry every worker and executor process shares."""

from __future__ import annotations

from functools import cache

from spark_connect_rt.plugins.registry import PluginDesc, Plugins, bundled

# The bundled transformations and predicates by name; ``$Key`` and ``$Value`` are Java's inner classes.


_PACKAGE = "spark_connect_rt.records.transforms"
_JAVA_TRANSFORMS = "org.apache.kafka.connect.transforms"
_SIDES = ("Key", "Value")
_TWO_SIDED = {
    "Cast": "cast",
    "ExtractField": "extract_field",
    "Flatten": "flatten",
    "HeaderFrom": "headers",
    "HoistField": "hoist_field",
    "InsertField": "insert_field",
    "MaskField": "mask_field",
    "ReplaceField": "replace_field",
    "SetSchemaMetadata": "set_schema_metadata",
    "TimestampConverter": "timestamp_converter",
}
_WHOLE = {
    "DropHeaders": "headers",
    "Filter": "predicates",
    "InsertHeader": "headers",
    "RegexRouter": "routers",
    "TimestampRouter": "routers",
    "ValueToKey": "value_to_key",
}
_PREDICATES = ("HasHeaderKey", "RecordIsTombstone", "TopicNameMatches")

TRANSFORMATIONS: tuple[PluginDesc, ...] = (
    *(
        bundled(f"{_PACKAGE}.{module}:{name}{side}", "transformation", f"{_JAVA_TRANSFORMS}.{name}${side}")
        for name, module in _TWO_SIDED.items()
        for side in _SIDES
    ),
    *(
        bundled(f"{_PACKAGE}.{module}:{name}", "transformation", f"{_JAVA_TRANSFORMS}.{name}")
        for name, module in _WHOLE.items()
    ),
)
PREDICATES: tuple[PluginDesc, ...] = tuple(
    bundled(f"{_PACKAGE}.predicates:{name}", "predicate", f"{_JAVA_TRANSFORMS}.predicates.{name}")
    for name in _PREDICATES
)

_CONNECTORS = "spark_connect_rt.connectors"
_CONVERTERS = "spark_connect_rt.records.converters"
_REGISTRY = "spark_connect_rt.records.registry"
_CONFIG_PROVIDERS = "spark_connect_rt.plugins"
_JAVA = "org.apache.kafka.connect"
_MIRROR = "org.apache.kafka.connect.mirror"
_NUMBERS = ("Boolean", "Double", "Float", "Integer", "Long", "Short")
_JAVA_CONFIG_PROVIDERS = "org.apache.kafka.common.config.provider"


def _jdbc_names(kind: str) -> tuple[str, ...]:
    """Return the names of the JDBC connector whose settings and offsets the SQL one reads."""
    name = f"Jdbc{kind}Connector"
    return (f"io.confluent.connect.jdbc.{name}", f"io.aiven.connect.jdbc.{name}", name, f"Jdbc{kind}")


def _connector(target: str, kind: str, java_class: str | None = None, *aliases: str, listed: bool = True) -> PluginDesc:
    """Return a bundled connector by ``wing.module:Class``.

    Configurations may name the module as it was called outside of its wing; that goes with version 0.2.
    """
    former = f"{_CONNECTORS}.{target.partition('.')[2]}"
    aliases = (*aliases, former, former.replace(":", "."))
    return bundled(f"{_CONNECTORS}.{target}", kind, java_class, *aliases, listed=listed)


BUNDLED: tuple[PluginDesc, ...] = (
    _connector(
        "files.file_stream_source:FileStreamSourceConnector",
        "source",
        f"{_JAVA}.file.FileStreamSourceConnector",
    ),
    _connector(
        "files.file_stream_sink:FileStreamSinkConnector",
        "sink",
        f"{_JAVA}.file.FileStreamSinkConnector",
    ),
    _connector("files.delimited_file_source:DelimitedFileSourceConnector", "source"),
    _connector("files.directory_source:DirectorySourceConnector", "source"),
    _connector("topics.kafka_sink:KafkaSinkConnector", "sink"),
    _connector("topics.kafka_source:KafkaSourceConnector", "source"),
    *(
        _connector(
            f"mirror.mirror_{name.lower()}:Mirror{name}Connector",
            "source",
            f"{_MIRROR}.Mirror{name}Connector",
        )
        for name in ("Source", "Checkpoint", "Heartbeat")
    ),
    _connector("spark.spark_format_source:SparkFormatSourceConnector", "source"),
    _connector("http.http_source:HttpSourceConnector", "source"),
    _connector("http.http_sink:HttpSinkConnector", "sink"),
    _connector("external_process.singer_source:SingerSourceConnector", "source"),
    _connector("external_process.airbyte_source:AirbyteSourceConnector", "source"),
    _connector("python_sources.dlt_source:DltSourceConnector", "source"),
    _connector("python_sources.lakeflow_source:LakeflowSourceConnector", "source"),
    _connector("samples.datagen_source:DatagenSourceConnector", "source"),
    _connector("spark.spark_table_sink:SparkTableSinkConnector", "sink"),
    bundled(f"{_CONNECTORS}.lakehouse.delta_sink:DeltaSinkConnector", "sink"),
    bundled(f"{_CONNECTORS}.lakehouse.iceberg_sink:IcebergSinkConnector", "sink"),
    bundled(f"{_CONNECTORS}.object_store.sink_connector:ObjectStoreSinkConnector", "sink"),
    _connector("sql.sql_source:SqlSourceConnector", "source", None, *_jdbc_names("Source")),
    _connector("sql.sql_sink:SqlSinkConnector", "sink", None, *_jdbc_names("Sink")),
    # As in Kafka's own distribution, test connectors are not listed; a configuration that names one gets it.
    *(
        _connector(f"samples.{module}:{name}Connector", kind, f"{_JAVA}.tools.{name}Connector", listed=False)
        for module, name, kind in (
            ("verifiable", "VerifiableSource", "source"),
            ("verifiable", "VerifiableSink", "sink"),
            ("mock", "MockSource", "source"),
            ("mock", "MockSink", "sink"),
            ("schema_source", "SchemaSource", "source"),
        )
    ),
    *(  # each converts headers, too, and is listed as both kinds, as in Java
        bundled(f"{_CONVERTERS}.{target}Converter", kind, f"{_JAVA}.{java_class}Converter")
        for kind in ("converter", "header_converter")
        for target, java_class in (
            ("primitive_converters:String", "storage.String"),
            ("json:Json", "json.Json"),
            ("primitive_converters:ByteArray", "converters.ByteArray"),
            *((f"numbers:{name}", f"converters.{name}") for name in _NUMBERS),
        )
    ),
    *(  # their users' configurations name Confluent's classes
        bundled(f"{_REGISTRY}.{target}Converter", "converter", f"io.confluent.connect.{java_class}Converter")
        for target, java_class in (
            ("avro_converter:Avro", "avro.Avro"),
            ("json_schema_converter:JsonSchema", "json.JsonSchema"),
            ("protobuf_converter:Protobuf", "protobuf.Protobuf"),
        )
    ),
    bundled(
        f"{_CONVERTERS}.primitive_converters:SimpleHeaderConverter",
        "header_converter",
        f"{_JAVA}.storage.SimpleHeaderConverter",
    ),
    *TRANSFORMATIONS,
    *PREDICATES,
    bundled(
        f"{_CONFIG_PROVIDERS}.config_providers:FileConfigProvider",
        "configprovider",
        f"{_JAVA_CONFIG_PROVIDERS}.FileConfigProvider",
    ),
    bundled(
        f"{_CONFIG_PROVIDERS}.config_providers:DirectoryConfigProvider",
        "configprovider",
        f"{_JAVA_CONFIG_PROVIDERS}.DirectoryConfigProvider",
    ),
    bundled(
        f"{_CONFIG_PROVIDERS}.config_providers:EnvVarConfigProvider",
        "configprovider",
        f"{_JAVA_CONFIG_PROVIDERS}.EnvVarConfigProvider",
    ),
    bundled(
        "spark_connect_rt.rest.basic_auth:BasicAuthSecurityRestExtension",
        "rest_extension",
        f"{_JAVA}.rest.basic.auth.extension.BasicAuthSecurityRestExtension",
    ),
)


@cache
def bundled_plugins() -> Plugins:
    """Return the registry of this process; nothing is imported until it is asked for."""
    return Plugins(BUNDLED)
