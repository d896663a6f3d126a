"""Settings that every worker has, distributed or standalone (Java ``WorkerConfig``, ``RestServerConfig``)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, ClassVar

from spark_connect_rt.config.config_def import HIGH, LOW, MEDIUM, REQUIRED, ConfigDef, ConfigKey, Type
from spark_connect_rt.config.nearest_name import nearest_name
from spark_connect_rt.config.override_policy import known_policy
from spark_connect_rt.config.settings_group import SettingsGroup
from spark_connect_rt.config.validators import AtLeast, non_empty, one_of
from spark_connect_rt.errors import BadConfigError

# Connections to the brokers: times, buffers, protocol. ``ssl.*`` and ``sasl.*`` go to the clients as they are.


CLIENTS = ConfigDef(
    [
        ConfigKey(
            "security.protocol",
            Type.STRING,
            "PLAINTEXT",
            MEDIUM,
            "Protocol for connections to the brokers.",
            one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL", ignore_case=True),
        ),
        ConfigKey("metadata.max.age.ms", Type.LONG, 300_000, LOW, "Age at which metadata is refreshed, ms."),
        ConfigKey("retry.backoff.ms", Type.LONG, 100, LOW, "First wait before a request is retried, ms."),
        ConfigKey("retry.backoff.max.ms", Type.LONG, 1_000, LOW, "Longest wait before a request is retried, ms."),
        ConfigKey("request.timeout.ms", Type.INT, 40_000, MEDIUM, "Longest wait for a response, ms.", AtLeast(0)),
        ConfigKey(
            "connections.max.idle.ms", Type.LONG, 540_000, MEDIUM, "Idle connections are closed after this time, ms."
        ),
        ConfigKey("reconnect.backoff.ms", Type.LONG, 50, LOW, "First wait before a reconnect, ms.", AtLeast(0)),
        ConfigKey(
            "reconnect.backoff.max.ms", Type.LONG, 1_000, LOW, "Longest wait before a reconnect, ms.", AtLeast(0)
        ),
        ConfigKey(
            "socket.connection.setup.timeout.ms", Type.LONG, 10_000, LOW, "First timeout for opening a connection, ms."
        ),
        ConfigKey(
            "socket.connection.setup.timeout.max.ms",
            Type.LONG,
            30_000,
            LOW,
            "Longest timeout for opening a connection, ms.",
        ),
        ConfigKey(
            "send.buffer.bytes",
            Type.INT,
            131_072,
            MEDIUM,
            "TCP send buffer, bytes. -1: the operating system's default.",
            AtLeast(-1),
        ),
        ConfigKey(
            "receive.buffer.bytes",
            Type.INT,
            32_768,
            MEDIUM,
            "TCP receive buffer, bytes. -1: the operating system's default.",
            AtLeast(-1),
        ),
        ConfigKey(
            "metadata.recovery.strategy",
            Type.STRING,
            "rebootstrap",
            LOW,
            "The action of a client when none of the known brokers answers.",
            one_of("none", "rebootstrap", ignore_case=True),
        ),
        ConfigKey(
            "metadata.recovery.rebootstrap.trigger.ms",
            Type.LONG,
            300_000,
            LOW,
            "Time without metadata after which a client uses bootstrap.servers again, ms.",
            AtLeast(0),
        ),
    ]
)


@dataclass(frozen=True, slots=True)
class ConnectionSettings(SettingsGroup):
    """The times that our own connections keep; the others are the client libraries'."""

    definition: ClassVar[ConfigDef] = CLIENTS
    request_timeout_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    socket_connection_setup_timeout_ms: int


# ``response.http.headers.config``: headers that go with every answer (KIP-577). Pure.
#
# ``add Cache-Control: no-cache, "set X-List: a, b", addDate Expires: 3600000``: action, name, value; separated by
# commas, in quotes where there is a comma inside. Dates are milliseconds from now.


ACTIONS = ("set", "add", "setDate", "addDate")
_PART = re.compile(r'\s*"((?:[^"\\]|\\.)*)"\s*(?:,|$)|([^,]*)(?:,|$)')
_BAD_IN_VALUES = re.compile(r"[\r\n\x00]")
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


@dataclass(frozen=True, slots=True)
class HeaderRule:
    """One header; ``replaces``: instead of those of that name. ``value`` of a date: ms from now."""

    name: str
    value: str
    replaces: bool
    is_date: bool


def parse_header_rules(text: str) -> list[HeaderRule]:
    """Return the rules in order. Raises ValueError naming the part that is wrong."""
    return [_rule(part) for part in _parts(text)]


def valid_header_rules(value: Any) -> str | None:
    """Complain about rules that ``parse_header_rules`` cannot read."""
    try:
        parse_header_rules(str(value or ""))
    except ValueError as error:
        return str(error)
    return None


def _parts(text: str) -> list[str]:
    found: list[str] = []
    at = 0
    while at < len(text):
        match = _PART.match(text, at)
        if match is None or match.end() == at:
            break
        at = match.end()
        part = match.group(1) if match.group(1) is not None else match.group(2)
        if part.strip():
            found.append(part.strip())
    return found


def _rule(part: str) -> HeaderRule:
    action, _, header = part.partition(" ")
    if not header.strip():
        raise ValueError(f"Invalid format of header config '{part}'. Expected: '[action] [header name]:[header value]'")
    if action not in ACTIONS:
        raise ValueError(f"Invalid header config action: '{action}'. Expected one of {', '.join(ACTIONS)}")
    name, colon, value = header.partition(":")
    if not colon or not _TOKEN.fullmatch(name.strip()) or _BAD_IN_VALUES.search(value):
        raise ValueError(f"Invalid format of header '{header.strip()}' in '{part}'. Expected: 'name:value'")
    is_date = action.endswith("Date")
    if is_date and not re.fullmatch(r"-?\d+", value.strip()):
        raise ValueError(f"'{value.strip()}' of header config '{part}' is not a valid number of milliseconds")
    return HeaderRule(name.strip(), value.strip(), action.startswith("set"), is_date)


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
    """How a worker treats its connectors and tasks: shutdown, metrics, client overrides, topics."""

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
    """The listeners of the REST API, its advertised address, and its extensions."""

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
"""Names with these prefixes belong to plug-ins, clients and Spark, which check them.

Unknown ones are not reported here.
"""


def unknown_setting_warnings(definition: ConfigDef, raw: Mapping[str, Any], prefixes: tuple[str, ...]) -> list[str]:
    """Return one sentence for each setting that nothing reads: probably a misspelling."""
    return [
        f"unknown setting {name} has no effect" + (f". Did you mean {near}?" if near else "")
        for name in definition.unknown(raw, prefixes)
        for near in [nearest_name(name, definition.names())]
    ]


# Where the REST API listens and under which address other workers know it (Java ``RestServer.advertisedUrl``).


DEFAULT_PORT = 8083
_LISTENER = re.compile(r"^(?P<scheme>https?)://(?P<host>\[[^\]]*\]|[^:/\[\]]*):(?P<port>\d+)/?$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Listener:
    """One address of ``listeners``; an empty host means every interface, port 0 one that the system chooses."""

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        """Return it as the setting has it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Advertised:
    """How other workers reach this one: ``url`` ends in a slash, ``worker_id`` is host:port."""

    url: str
    worker_id: str


def parse_listeners(texts: Sequence[str]) -> list[Listener]:
    """Parse ``http://host:port`` texts. Raises BadConfigError naming the bad ones."""
    listeners, problems = [], []
    for text in texts:
        found = _LISTENER.match(text.strip())
        if found is None or int(found["port"]) > 65_535:
            problems.append(f"{text!r} is not a valid listener. Use http://host:port or https://host:port")
            continue
        listeners.append(Listener(found["scheme"].lower(), found["host"].strip("[]"), int(found["port"])))
    if not listeners and not problems:
        problems.append("must contain at least one listener")
    if problems:
        raise BadConfigError({"listeners": problems})
    return listeners


def listener_problems(setting: str, texts: Sequence[str]) -> list[tuple[str, str]]:
    """Return (``setting``, complaint) for each text that is not a valid listener."""
    try:
        parse_listeners(texts)
    except BadConfigError as error:
        return [(setting, why) for why in error.problems["listeners"]]
    return []


def advertised(rest: RestSettings, local_host: str) -> Advertised:
    """Return the address for others: ``rest.advertised.*``, else the first http listener's, else the first https one's.

    ``local_host`` replaces the host of a listener on every interface.
    """
    listeners = parse_listeners(rest.listeners)
    preferred = "http" if any(listener.scheme == "http" for listener in listeners) else "https"
    scheme = (rest.rest_advertised_listener or preferred).lower()
    chosen = next((listener for listener in listeners if listener.scheme == scheme), listeners[0])
    host = rest.rest_advertised_host_name or _reachable(chosen.host) or local_host
    port = rest.rest_advertised_port or chosen.port
    shown = f"[{host}]" if ":" in host else host
    return Advertised(f"{scheme}://{shown}:{port}/", f"{shown}:{port}")


def _reachable(host: str) -> str:
    return "" if host in ("0.0.0.0", "::") else host


def is_loopback(host: str) -> bool:
    """Return whether a name or address is one of this machine's for itself. Pure."""
    if host.lower() in ("localhost", "localhost."):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
