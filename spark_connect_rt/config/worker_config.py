"""Settings that every worker has, distributed or standalone (Java ``WorkerConfig``, ``RestServerConfig``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from spark_connect_rt.config.config_def import HIGH, LOW, MEDIUM, REQUIRED, ConfigDef, ConfigKey, Type
from spark_connect_rt.config.nearest_name import nearest_name
from spark_connect_rt.config.override_policy import known_policy
from spark_connect_rt.config.response_headers import valid_header_rules
from spark_connect_rt.config.settings_group import SettingsGroup
from spark_connect_rt.config.validators import AtLeast, non_empty, one_of

PLUGIN_VERSION = "Version of the plug-in: 1.2, a range [1.0,2.0), or latest. Not set: the bundled or newest version."

CONVERTERS = ConfigDef(
    [
        ConfigKey("key.converter", Type.CLASS, REQUIRED, HIGH, "Converter of keys for connectors that set none."),
        ConfigKey("value.converter", Type.CLASS, REQUIRED, HIGH, "Converter of values for connectors that set none."),
        ConfigKey(
            "header.converter",
            Type.CLASS,
            "org.apache.kafka.connect.storage.SimpleHeaderConverter",
            LOW,
            "Converter of headers for connectors that set none.",
        ),
        *(
            ConfigKey(f"{kind}.converter.plugin.version", Type.STRING, None, LOW, PLUGIN_VERSION)
            for kind in ("key", "value", "header")
        ),
    ]
)
RUNTIME = ConfigDef(
    [
        ConfigKey(
            "bootstrap.servers",
            Type.LIST,
            "localhost:9092",
            HIGH,
            "Brokers for the first connection, host:port, separated by commas.",
            non_empty,
        ),
        ConfigKey(
            "client.dns.lookup",
            Type.STRING,
            "use_all_dns_ips",
            MEDIUM,
            "How clients use host names that resolve to several addresses.",
            one_of("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"),
        ),
        ConfigKey(
            "task.shutdown.graceful.timeout.ms",
            Type.LONG,
            5_000,
            LOW,
            "How long all stopping tasks together may take to end, ms. Then they are cancelled.",
        ),
        ConfigKey(
            "offset.flush.interval.ms",
            Type.LONG,
            60_000,
            LOW,
            "Longest time between two offset commits of a task, ms. Source tasks here commit after each batch.",
        ),
        ConfigKey("offset.flush.timeout.ms", Type.LONG, 5_000, LOW, "Longest time for one offset commit, ms."),
        ConfigKey(
            "plugin.path",
            Type.LIST,
            None,
            LOW,
            "Folders of plug-ins, separated by commas. A plug-in is a wheel, package or virtual environment in "
            "one of them, or a jar or folder of jars in Java's layout.",
        ),
        ConfigKey(
            "plugin.discovery",
            Type.STRING,
            "hybrid_warn",
            LOW,
            "How Java plug-ins are found, as in Java. service_load: only by the service files in jars. Otherwise "
            "also by a JVM that inspects every class, once for each content of a folder.",
            one_of("only_scan", "hybrid_warn", "hybrid_fail", "service_load", ignore_case=True),
        ),
        ConfigKey("metrics.sample.window.ms", Type.LONG, 30_000, LOW, "Length of one metrics window, ms.", AtLeast(0)),
        ConfigKey("metrics.num.samples", Type.INT, 2, LOW, "Number of metrics windows.", AtLeast(1)),
        ConfigKey(
            "metrics.recording.level",
            Type.STRING,
            "INFO",
            LOW,
            "Most detailed level of metrics that is recorded.",
            one_of("INFO", "DEBUG", "TRACE", ignore_case=True),
        ),
        ConfigKey(
            "metric.reporters",
            Type.LIST,
            "org.apache.kafka.common.metrics.JmxReporter",
            LOW,
            "Java classes that report metrics. This worker ignores them.",
        ),
        ConfigKey(
            "config.providers",
            Type.LIST,
            "",
            LOW,
            "Aliases of the config providers for ${alias:path:key}. Configure each with config.providers.<alias>.",
        ),
        ConfigKey(
            "connector.client.config.override.policy",
            Type.STRING,
            "All",
            MEDIUM,
            "Which client settings connectors may override: All, None or Principal.",
            known_policy,
        ),
        ConfigKey(
            "topic.creation.enable",
            Type.BOOLEAN,
            True,
            LOW,
            "Whether to create topics for source connectors that have topic.creation.* settings.",
        ),
        ConfigKey(
            "topic.tracking.enable", Type.BOOLEAN, True, LOW, "Whether to record which topics each connector uses."
        ),
        ConfigKey(
            "topic.tracking.allow.reset",
            Type.BOOLEAN,
            True,
            LOW,
            "Whether to allow PUT /connectors/{name}/topics/reset.",
        ),
    ]
)
REST = ConfigDef(
    [
        ConfigKey(
            "listeners",
            Type.LIST,
            "http://:8083",
            LOW,
            "URLs that the REST API listens on, http or https. An empty host means every interface.",
            non_empty,
        ),
        ConfigKey(
            "rest.advertised.host.name", Type.STRING, None, LOW, "Host name that other workers use to reach this one."
        ),
        ConfigKey("rest.advertised.port", Type.INT, None, LOW, "Port that other workers use to reach this one."),
        ConfigKey(
            "rest.advertised.listener",
            Type.STRING,
            None,
            LOW,
            "Protocol that other workers use to reach this one.",
            one_of("http", "https", ignore_case=True),
        ),
        ConfigKey(
            "access.control.allow.origin",
            Type.STRING,
            "",
            LOW,
            "Allowed origins of web pages, regular expressions. *: all.",
        ),
        ConfigKey("access.control.allow.methods", Type.STRING, "", LOW, "Methods that other origins may use."),
        ConfigKey(
            "admin.listeners",
            Type.LIST,
            None,
            LOW,
            "URLs for /admin. Not set: the listeners. Empty: /admin is not served.",
        ),
        ConfigKey("rest.extension.classes", Type.LIST, "", LOW, "Plug-ins around the REST API, the outermost first."),
        ConfigKey(
            "response.http.headers.config",
            Type.STRING,
            "",
            LOW,
            "Headers added to every response: '[set|add|setDate|addDate] [name]:[value]', separated by commas.",
            valid_header_rules,
        ),
        ConfigKey(
            "ssl.client.auth",
            Type.STRING,
            "none",
            LOW,
            "Whether https clients must present a certificate.",
            one_of("required", "requested", "none"),
        ),
    ]
)

WORKER = RUNTIME + CONVERTERS + REST


@dataclass(frozen=True, slots=True)
class RuntimeSettings(SettingsGroup):
    """What a worker does for its connectors and tasks."""

    definition: ClassVar[ConfigDef] = RUNTIME
    task_shutdown_graceful_timeout_ms: int
    metrics_sample_window_ms: int
    metrics_num_samples: int
    connector_client_config_override_policy: str
    topic_creation_enable: bool
    topic_tracking_enable: bool
    topic_tracking_allow_reset: bool


@dataclass(frozen=True, slots=True)
class FlushSettings(SettingsGroup):
    """When the offsets of tasks are committed."""

    definition: ClassVar[ConfigDef] = RUNTIME
    offset_flush_interval_ms: int
    offset_flush_timeout_ms: int


@dataclass(frozen=True, slots=True)
class RestSettings(SettingsGroup):
    """Where the REST API listens, how others reach it, what is around it."""

    definition: ClassVar[ConfigDef] = REST
    listeners: tuple[str, ...]
    rest_advertised_host_name: str | None
    rest_advertised_port: int | None
    rest_advertised_listener: str | None
    access_control_allow_origin: str
    access_control_allow_methods: str
    admin_listeners: tuple[str, ...] | None  # None: the listeners; empty: nowhere
    rest_extension_classes: tuple[str, ...]
    response_http_headers_config: str


def worker_converter(config: Mapping[str, str], setting: str) -> str | None:
    """Return the class that ``key.converter``, ``value.converter`` or ``header.converter`` names, else the default."""
    default = CONVERTERS[setting].default
    return config.get(setting) or (None if default is REQUIRED else default)


PASSED_ON = (
    "key.converter.",
    "value.converter.",
    "header.converter.",
    "config.providers.",
    "producer.",
    "consumer.",
    "admin.",
    "ssl.",
    "sasl.",
    "security.",
    "listeners.https.",
    "admin.listeners.https.",
    "metrics.context.",
    "rest.extension.",
    "spark.",
)
"""Names with these prefixes go on to whom they belong; nothing here can judge them."""


def unknown_setting_warnings(definition: ConfigDef, raw: Mapping[str, Any], prefixes: tuple[str, ...]) -> list[str]:
    """Return one sentence for each setting that nothing reads: probably a misspelling."""
    return [
        f"unknown setting {name} has no effect" + (f". Did you mean {near}?" if near else "")
        for name in definition.unknown(raw, prefixes)
        for near in [nearest_name(name, definition.names())]
    ]
