"""Makes the pages of docs/reference named in PAGES from declarations.

``python -m tools.reference_docs`` writes them; tests/unit/tools/test_reference_docs.py fails when a
committed page says something else than the declarations.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from spark_connect_rt.api.converter import CONVERTER_TYPE
from spark_connect_rt.api.transformation import Transformation
from spark_connect_rt.app.migrate.worker_file import in_this_version
from spark_connect_rt.base.exit_codes import EXIT_CODES
from spark_connect_rt.config import connector_config, override_policy, validators, worker_config
from spark_connect_rt.config import connectrt_config as own_settings
from spark_connect_rt.config import group_config as placement
from spark_connect_rt.config import management_config as health_config
from spark_connect_rt.config import management_config as management
from spark_connect_rt.config import management_config as plugin_install
from spark_connect_rt.config import worker_settings as standalone_config
from spark_connect_rt.config.config_def import ConfigDef, ConfigKey, Password, text_of
from spark_connect_rt.config.group_config import GROUP, SESSION_KEYS, STORAGE
from spark_connect_rt.config.worker_config import CLIENTS
from spark_connect_rt.config.worker_settings import STANDALONE
from spark_connect_rt.connectors.mirror.maker_config import MAKER
from spark_connect_rt.engine.log_lines import BURST, LINES_A_SECOND
from spark_connect_rt.engine.task_logs import BYTES_EACH, BYTES_IN_ALL, KEPT_S, LINES_EACH
from spark_connect_rt.operations.events.memory import BYTES_PER_KIND, EVENTS_PER_KIND
from spark_connect_rt.plugins.bundled_plugins import bundled_plugins
from spark_connect_rt.plugins.plugin_desc import PluginDesc
from spark_connect_rt.records.transforms import key_or_value as transform_settings
from spark_connect_rt.records.transforms.column_forms import has_column_form
from spark_connect_rt.rest.metrics import prometheus_name
from spark_connect_rt.runtime.group_events import KINDS
from spark_connect_rt.runtime.metric_names import METRICS
from tools.columns_page import columns_page
from tools.command_reference import command_line
from tools.connector_pages import connector_page

FOLDER = Path("docs/reference")
CONNECTORS = "connectors"
_MADE_BY = "<!-- Made by `python -m tools.reference_docs`; change the declaration, not this page. -->"
_WORDS_OF_CHECKS: dict[Any, str] = {
    validators.anything: "",
    validators.non_empty: "not empty",
    validators.no_control_characters: "not empty, no control characters",
    validators.unique: "no alias twice",
    validators.java_regex: "a regular expression",
    transform_settings.non_empty_list: "not empty",
    transform_settings.non_empty_text: "not empty",
    transform_settings.valid_regex: "a regular expression",
    override_policy.known_policy: "a policy: All, None, Principal",
}
_WORKER_SECTIONS = (
    ("Group", GROUP),
    ("Internal topics", STORAGE),
    ("Converters", worker_config.CONVERTERS),
    ("Runtime", worker_config.RUNTIME),
    ("REST API", worker_config.REST),
    ("Signed requests between workers", SESSION_KEYS),
    ("Connections to Kafka", CLIENTS),
    ("Engine (only here, not in Java)", own_settings.ENGINE),
    ("Plug-ins installed while the worker runs (only here, not in Java)", plugin_install.PLUGIN_INSTALL),
    ("Management API: history (only here, not in Java)", management.MANAGEMENT),
    ("Placement of work (only here, not in Java)", placement.PLACEMENT),
    ("Failed and motionless work (only here, not in Java): for connectors that say nothing", health_config.HEALTH),
    ("Quickstart (only here, not in Java)", own_settings.QUICKSTART),
)
_WORKER_PREFIXES = (
    ("key.converter.*, value.converter.*, header.converter.*", "Settings of that converter."),
    ("config.providers.<alias>.class, .param.*", "Class and settings of one config provider."),
    ("producer.*", "Kafka producer settings for source tasks and dead letter queues."),
    ("consumer.*", "Kafka consumer settings for sink tasks."),
    ("admin.*", "Kafka admin settings for connectors."),
    ("ssl.*, sasl.*", "How the worker's own clients reach Kafka. Tasks see only what has their prefix."),
    ("config.storage.*, offset.storage.*, status.storage.*", "Topic settings for the creation of that topic."),
    ("spark.*", "Passed to the SparkSession, but for the few that the engine sets itself."),
)
_MIRROR_PREFIXES = (
    ("A.*", "Of cluster A: what its clients need, and of every worker that works there, the worker's settings."),
    ("A.producer.*, A.consumer.*, A.admin.*", "Of these clients of cluster A."),
    ("A->B.*", "Of that flow's connectors; wins over the same name without it."),
    ("(a connector's setting)", "Of the connectors of all flows."),
    ("(security.protocol, ssl.*, sasl.*)", "Of all clients of all clusters."),
    ("offset.storage.*, config.storage.*, status.storage.*", "Of all workers: their topics."),
    ("key.converter.*, value.converter.*, header.converter.*", "Of all workers; better left alone: bytes stay bytes."),
    ("task*, worker*, replication.policy*", "Of all workers."),
    ("config.providers.<alias>.class, .param.*", "Class and settings of one config provider."),
    ("listeners, rest.advertised.*, listeners.https.*", "Of the internal REST server of the process."),
    ("spark.*, connectrt.*, plugin.path", "Of the process and all its flows (only here, not in Java)."),
)
_CONNECTOR_PREFIXES = (
    ("key.converter.*, value.converter.*, header.converter.*", "Settings of a converter that the connector names."),
    ("transforms.<alias>.type, .predicate, .negate", "Class of a transformation; the predicate that decides."),
    ("predicates.<alias>.type", "Class of a predicate."),
    (
        "topic.creation.<group>.include, .exclude",
        "Which topics belong to the group: regular expressions. No topic by default.",
    ),
    ("topic.creation.<group>.replication.factor, .partitions", "How they are created; -1: the broker's default."),
    ("dlt.config.*", "Of DltSource: what dlt's config.toml and secrets.toml would say, by section."),
    ("lakeflow.option.*", "Of LakeflowSource: options of the connection."),
    ("lakeflow.table.<table>.*", "Of LakeflowSource: options of one table; they win."),
    ("producer.override.*, consumer.override.*, admin.override.*", "Kafka client settings of this connector."),
)


def settings_table(keys: Iterable[ConfigKey]) -> str:
    """Return one Markdown row a setting, in order of declaration."""
    rows = ["| Setting | Type | Default | Values | Importance | Meaning |", "|---|---|---|---|---|---|"]
    for key in keys:
        cells = (f"`{key.name}`", key.type.value.lower(), _default(key), _values(key), key.importance.value.lower())
        rows.append("| " + " | ".join((*cells, _meaning(key))) + " |")
    return "\n".join(rows) + "\n"


def worker_settings() -> str:
    """Return the page of everything a distributed worker's file may hold."""
    parts = [
        f"# Worker settings\n\n{_MADE_BY}\n\n"
        "The settings of a distributed worker's properties file.\n"
        "Names, defaults and meanings are Kafka Connect's, so a Java worker's file works here.\n"
        "A worker reports all invalid settings at once, and warns about unknown ones.\n"
    ]
    parts += [f"## {title}\n\n{settings_table(definition)}" for title, definition in _WORKER_SECTIONS]
    return "\n".join([*parts, "## Names by prefix\n\n" + _prefix_table(_WORKER_PREFIXES)])


def standalone_settings() -> str:
    """Return the page of what a standalone worker's file may hold."""
    parts = [
        f"# Settings of a standalone worker\n\n{_MADE_BY}\n\n"
        "The settings of the properties file of a worker without a group.\n"
        "Names, defaults and meanings are Kafka Connect's, so a Java worker's file works here.\n"
        "Names by prefix are those of a [distributed worker](worker_settings.md), but the `*.storage.*` of topics.\n",
        f"## Offsets\n\n{settings_table(standalone_config.OWN)}",
    ]
    shared = [(title, keys) for title, keys in _WORKER_SECTIONS if all(name in STANDALONE for name in keys.names())]
    return "\n".join([*parts, *(f"## {title}\n\n{settings_table(keys)}" for title, keys in shared)])


def connector_settings() -> str:
    """Return the page of the settings of connectors: common ones first, then those of each bundled connector."""
    common, ours, health = connector_config.COMMON, own_settings.CONNECTOR, health_config.HEALTH
    parts = [
        f"# Connectors and their settings\n\n{_MADE_BY}\n\n"
        "The bundled connectors, each with a page of its example, offsets and settings, and the settings that every\n"
        "connector has.\n",
        f"## Bundled connectors\n\n{_connectors_table()}",
        f"## Every connector\n\n{settings_table(common)}",
        f"## Source connectors\n\n{settings_table(_without(connector_config.SOURCE, common + ours + health))}",
        f"## Sink connectors\n\n{settings_table(_without(connector_config.SINK, common + ours + health))}",
        f"## Execution (only here, not in Java)\n\n{settings_table(ours)}",
        f"## Failed and motionless work (only here, not in Java)\n\n{settings_table(health)}",
        "## Names by prefix\n\n" + _prefix_table(_CONNECTOR_PREFIXES),
    ]
    return "\n".join(parts)


def transformations() -> str:
    """Return the page of the bundled transformations, predicates and converters with their settings."""
    parts = [
        f"# Transformations, predicates, converters\n\n{_MADE_BY}\n\n"
        "The bundled plug-ins, with Java's class names.\n"
        "`$Key` and `$Value` work on the key or the value of a record, with the same settings.\n"
        "A transformation with a column form processes a whole Arrow batch of a source at once, with the same result.\n"
    ]
    plugins = bundled_plugins()
    for kind in ("transformation", "predicate", "converter"):
        parts.append(f"## {kind.capitalize()}s\n")
        for plugin in plugins.list(connectors_only=False):
            if plugin.type == kind and not plugin.java_class.endswith("$Key"):
                parts.append(_plugin_section(plugin.java_class, plugin.cls))
    return "\n".join(parts)


def _plugin_section(java_class: str, cls: type[Any]) -> str:
    title = java_class.replace("$Value", "$Key`, `$Value")
    note = " Has a column form." if issubclass(cls, Transformation) and has_column_form(cls) else ""
    purpose = (inspect.getdoc(cls.__mro__[1] if "$" in java_class else cls) or "").splitlines()[0]
    keys = [key for key in cls().config_def() if key.name != CONVERTER_TYPE.name]  # said by the worker
    table = settings_table(keys) if len(keys) else "No settings.\n"
    return f"### `{title}`\n\n{_cell(purpose)}{note}\n\n{table}"


def mirror_maker_settings() -> str:
    """Return the page of what a dedicated MirrorMaker's file may hold."""
    return (
        f"# Settings of a dedicated MirrorMaker\n\n{_MADE_BY}\n\n"
        "The settings of `connect-mirror-maker.properties`. Kafka's file works here.\n"
        "`A` and `B` stand for aliases of clusters.\n"
        "See also the settings of the [connectors](connector_settings.md) and of the [workers](worker_settings.md).\n\n"
        f"{settings_table(MAKER)}\n## Names by prefix\n\n{_prefix_table(_MIRROR_PREFIXES)}"
    )


def exit_codes() -> str:
    """Return the page of the process's exit codes."""
    rows = "\n".join(f"| {code} | {_cell(meaning)} |" for code, meaning in sorted(EXIT_CODES.items()))
    return f"# Exit codes\n\n{_MADE_BY}\n\n| Code | The process |\n|---|---|\n{rows}\n"


def metrics() -> str:
    """Return the page of everything ``/admin/metrics`` may say."""
    rows = [
        f"| `{prometheus_name(metric.group, metric.name)}` | {', '.join(metric.tags) or ' '} | {_cell(metric.doc)} |"
        for metric in METRICS.values()
    ]
    return (
        f"# Metrics\n\n{_MADE_BY}\n\n"
        "`GET /admin/metrics` of a worker returns the metrics of its connectors and tasks in Prometheus format.\n"
        "The names are Kafka Connect's, in the form that common rules of the JMX exporter give them.\n\n"
        "Averages, maxima and rates cover `metrics.sample.window.ms` times `metrics.num.samples`.\n"
        "A state or a name is a label, with the value 1.\n"
        "A metric appears when it was counted once: a task that never polled has no poll time.\n"
        "Executors report once a second.\n\n"
        "Metrics that a task or a connector defines (`context.metrics`, KIP-877) appear as\n"
        "`kafka_connect_plugins_NAME_count` and so on, with the task's labels first.\n\n"
        "| Metric | Labels | Meaning |\n|---|---|---|\n" + "\n".join(rows) + "\n\n"
        "[Known limits](../explanation/limits.md#history-and-metrics) lists the missing metrics of Java.\n"
    )


def events() -> str:
    """Return the page of the group's events and of the log lines of tasks."""
    rows = "\n".join(f"| `{kind}` | {_cell(meaning)} |" for kind, meaning in KINDS.items())
    return (
        f"# Events\n\n{_MADE_BY}\n\n"
        "`GET /admin/events` of any worker returns the events of the whole group, newest first.\n"
        "The parameters `kind=a,b`, `connector=`, `since_ms=` and `limit=` select some of them.\n\n"
        "`GET /admin/events/stream` sends server-sent events as they happen.\n"
        "It continues after `Last-Event-ID`, also at another worker.\n"
        "No event is missed while it is kept.\n"
        "A recent event of another worker may be sent twice, under the same id.\n\n"
        "| Kind | What happened |\n|---|---|\n" + rows + "\n\n"
        "The kinds `config`, `state`, `offsets` and `logger` have a field `who`: the client that made the request,\n"
        "as in the history. It is null if another tool wrote the topic, or if `connectrt.history.changes.max` is 0.\n\n"
        f"Each worker keeps its last {EVENTS_PER_KIND:,} events of each kind in memory, at most\n"
        f"{BYTES_PER_KIND // 1024:,} KiB.\n"
        "The leader reads the events of all workers every ten seconds, so they outlive the worker.\n"
        "`unanswered` lists workers that did not answer in time.\n"
        "Events inside a Java worker are missing, but events that the group saw of it are included.\n\n"
        "The `details` of a rebalance:\n\n"
        "| Field | Meaning |\n|---|---|\n"
        "| `generation`, `leader`, `members`, `workers` | the new generation and who is in it |\n"
        "| `took_ms` | of the slowest worker, from the first sign of the rebalance to the adopted assignment |\n"
        "| `joined`, `left` | members. `left` is null if the leader had led no round before. |\n"
        "| `moved` | `connector`, `task`, `from`, `to` |\n"
        "| `released` | work that a worker released, assigned in a later generation |\n\n"
        "## Log lines of tasks\n\n"
        "`GET /admin/connectors/{connector}/logs` and `/admin/connectors/{connector}/tasks/{task}/logs` of any\n"
        "worker return the lines that were logged on executors and on the driver, oldest first.\n"
        "`tail=` limits the number of lines, `level=` sets the lowest level.\n"
        "`/stream` after the path follows new lines. With `tail=` it starts with earlier ones.\n\n"
        "| Limit | Value |\n|---|---|\n"
        f"| Lines of each task and connector | {LINES_EACH:,}, at most {BYTES_EACH // 1024} KiB |\n"
        f"| All lines of a worker | {BYTES_IN_ALL // 1024**2} MiB |\n"
        f"| Time after the last line | {KEPT_S / 3600:.0f} h, also where a task ran before it moved |\n"
        f"| Lines a second of one task | {LINES_A_SECOND} below `WARN` and as many from `WARN` on, after a burst of "
        f"{BURST} seconds' worth. More lines are dropped and counted. |\n\n"
        "Secrets are masked as in the log.\n"
        "A line from a thread that a plug-in started itself appears in the log of every task of that process.\n"
        "Lines of Java tasks start with Connect's context.\n"
        "Output that a task prints is in Spark's own logs.\n"
    )


def cli() -> str:
    """Return the page of every word of the command line."""
    return f"# Command line\n\n{_MADE_BY}\n\n{command_line()}"


def _page_of(plugin: PluginDesc) -> str:
    keys = bundled_plugins().class_of(plugin.java_class)().config_def()
    description = _cell(plugin.description)
    return connector_page(name_of(plugin), plugin.type, description, plugin.java_class, _MADE_BY, settings_table(keys))


def listed_connectors() -> list[PluginDesc]:
    """Return the bundled connectors that a worker lists, by the name of their class."""
    return sorted(bundled_plugins().list(connectors_only=True), key=_short)


def _connectors_table() -> str:
    rows = [
        f"| [`{name_of(plugin)}`]({CONNECTORS}/{name_of(plugin)}.md) | {plugin.type} | {_cell(plugin.description)} |"
        for plugin in listed_connectors()
    ]
    return "\n".join(["| Connector | Kind | What it does |", "|---|---|---|", *rows]) + "\n"


def name_of(plugin: PluginDesc) -> str:
    """Return the name of a bundled connector as its page and ``connector.class`` have it, such as ``SqlSink``."""
    return _short(plugin).removesuffix("Connector")


def _short(plugin: PluginDesc) -> str:
    return plugin.java_class.rpartition(".")[2]


def _without(definition: ConfigDef, less: ConfigDef) -> list[ConfigKey]:
    return [key for key in definition if key.name not in less]


def _prefix_table(rows: Sequence[tuple[str, str]]) -> str:
    lines = [f"| `{names.replace(', ', '`, `')}` | {meaning} |" for names, meaning in rows]
    return "\n".join(["| Names | What they are |", "|---|---|", *lines]) + "\n"


def _meaning(key: ConfigKey) -> str:
    note = in_this_version(key.name)
    return _cell(f"{key.doc} *In this version: {note}.*" if note else key.doc)


def _default(key: ConfigKey) -> str:
    if key.required:
        return "**required**"
    if isinstance(key.default, Password):
        return "hidden"
    text = text_of(key.default)
    return "not set" if text is None else f"`{text}`" if text else "empty"


def _values(key: ConfigKey) -> str:
    words = _WORDS_OF_CHECKS.get(key.check)
    if words is None:  # a plain function has no words of its own, and its repr holds an address
        words = "" if inspect.isfunction(key.check) else str(key.check)
    return _cell(words)


def _cell(text: str) -> str:
    """Return text that a cell shows as it is; ``[a] [b]`` would be a link."""
    return (
        text.replace("&", "&amp;").replace("<", "&lt;").replace("|", "\\|").replace("\n", " ").replace("] [", "] &#91;")
    )


PAGES: dict[str, Callable[[], str]] = {
    "worker_settings.md": worker_settings,
    "standalone_settings.md": standalone_settings,
    "connector_settings.md": connector_settings,
    "mirror_maker_settings.md": mirror_maker_settings,
    "exit_codes.md": exit_codes,
    "metrics.md": metrics,
    "events.md": events,
    "cli.md": cli,
    "transformations.md": transformations,
    "columns.md": lambda: columns_page(_MADE_BY),
}
PAGES |= {f"{CONNECTORS}/{name_of(plugin)}.md": partial(_page_of, plugin) for plugin in listed_connectors()}


def write_pages(folder: Path = FOLDER) -> None:
    """Write every page into ``folder``."""
    (folder / CONNECTORS).mkdir(parents=True, exist_ok=True)
    for name, render in PAGES.items():
        (folder / name).write_text(render(), encoding="utf-8")


if __name__ == "__main__":
    write_pages(*map(Path, sys.argv[1:2]))
