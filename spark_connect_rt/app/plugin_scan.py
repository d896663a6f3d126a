"""The plug-ins that come with the package, by name; nothing is imported until a configuration names it."""

from __future__ import annotations

from functools import cache

from spark_connect_rt.plugins.registry import Plugins, bundled

_OURS = "spark_connect_rt"
_JAVA = "org.apache.kafka.connect"
_PROVIDERS = "org.apache.kafka.common.config.provider"

BUNDLED = (
    bundled(
        f"{_OURS}.connectors.file_stream_source:FileStreamSourceConnector",
        "source",
        f"{_JAVA}.file.FileStreamSourceConnector",
    ),
    bundled(
        f"{_OURS}.connectors.file_stream_sink:FileStreamSinkConnector",
        "sink",
        f"{_JAVA}.file.FileStreamSinkConnector",
    ),
    bundled(f"{_OURS}.connectors.delimited_file_source:DelimitedFileSourceConnector", "source"),
    bundled(f"{_OURS}.connectors.spark_table_sink:SparkTableSinkConnector", "sink"),
    bundled(f"{_OURS}.converters.string:StringConverter", "converter", f"{_JAVA}.storage.StringConverter"),
    bundled(f"{_OURS}.converters.json:JsonConverter", "converter", f"{_JAVA}.json.JsonConverter"),
    bundled(f"{_OURS}.converters.byte_array:ByteArrayConverter", "converter", f"{_JAVA}.converters.ByteArrayConverter"),
    bundled(
        f"{_OURS}.converters.simple_header:SimpleHeaderConverter",
        "header_converter",
        f"{_JAVA}.storage.SimpleHeaderConverter",
    ),
    bundled(f"{_OURS}.config_providers.file:FileConfigProvider", "configprovider", f"{_PROVIDERS}.FileConfigProvider"),
    bundled(
        f"{_OURS}.config_providers.directory:DirectoryConfigProvider",
        "configprovider",
        f"{_PROVIDERS}.DirectoryConfigProvider",
    ),
    bundled(
        f"{_OURS}.config_providers.env_var:EnvVarConfigProvider",
        "configprovider",
        f"{_PROVIDERS}.EnvVarConfigProvider",
    ),
)


@cache
def bundled_plugins() -> Plugins:
    """Return this process's plug-ins."""
    return Plugins(BUNDLED)
