"""Options of ``spark.read.format("connectrt")``: splits the format's own options from the connector's configuration.

Spark hands option names on in lower case. A connector's settings get their case back from their declarations, from the
aliases in ``transforms`` and ``predicates``, and from the option ``config``, a JSON object that is taken as it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from spark_connect_rt.api.connector import Connector
from spark_connect_rt.base.json_text import decode_json
from spark_connect_rt.config.config_def import ConfigDef, Type, parse_value, prefixed
from spark_connect_rt.config.connector_config import SOURCE
from spark_connect_rt.errors import BadConfigError, DataError
from spark_connect_rt.records.pipeline.chain_config import chain_config_def

IDLE, LATEST = "idle", "latest"
IDLE_MS = 1_000
CONNECT = "connect"
OWN = (
    "config",
    "until",
    "idleMs",
    "maxRecords",
    "maxBytes",
    "maxWaitMs",
    "startingOffsets",
    "commitOffsets",
    "connector",
    "connect.url",
    "decode",
    "decodeKey",
    "valueType",
    "keyType",
    "columns",
)
COLUMNS = {
    "topic": "string",
    "partition": "int",
    "key": "binary",
    "value": "binary",
    "headers": "array<struct<key: string, value: binary>>",
    "timestamp": "timestamp",
    "source_partition": "string",
    "source_offset": "string",
}
"""The format's columns and their types in Spark, as DDL."""
DECODES = {"value": ("decode", "valueType"), "key": ("decodeKey", "keyType")}
"""By column: the option that has it decoded, and the one that says its type."""
DEFAULTS = {
    "tasks.max": "1",
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
}

SourceOffset = tuple[Mapping[str, Any], Mapping[str, Any] | None]


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """Where a read ends, for one task."""

    until: str = IDLE
    idle_ms: int = IDLE_MS
    max_records: int | None = None
    max_bytes: int | None = None

    def share(self, tasks: int, task: int) -> ReadLimits:
        """Return one task's part, so that all tasks together keep to the limits."""
        return ReadLimits(
            self.until, self.idle_ms, _part(self.max_records, tasks, task), _part(self.max_bytes, tasks, task)
        )


@dataclass(frozen=True, slots=True)
class Decode:
    """One column, key or value, that is to be typed."""

    column: str
    format: str
    settings: Mapping[str, str]  # of the format's converter
    type_ddl: str | None = None  # None: a sample of the records shows it

    @property
    def option(self) -> str:
        """Return the option that asked for it."""
        return DECODES[self.column][0]

    @property
    def type_option(self) -> str:
        """Return the option that says the type."""
        return DECODES[self.column][1]


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The checked options of one read."""

    limits: ReadLimits
    starting: tuple[SourceOffset, ...] | str  # offsets that tasks find stored; CONNECT: those of the offset topic
    commit_offsets: bool  # to the offset topic, after each batch of a stream
    connector: str | None  # a deployed one, whose configuration is below the options
    config: Mapping[str, str]  # the connector's, names still in lower case but for those of ``config``
    decodes: tuple[Decode, ...] = ()
    columns: tuple[str, ...] = tuple(COLUMNS)  # those of the read, in their order
    max_wait_ms: int | None = None  # of one micro-batch of a stream; None: the option is not given


class GivenOptions:
    """Spark's options while they are being read. Collects the problems that it finds."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.given = {name.lower(): value for name, value in options.items()}
        self.problems: dict[str, list[str]] = {}

    def take(self, name: str, parse: Callable[[str], Any], default: Any) -> Any:
        """Return an option parsed, ``default`` when it is not there or wrong; ``name`` as its users write it."""
        if name.lower() not in self.given:
            return default
        try:
            return parse(self.given[name.lower()])
        except (ValueError, DataError) as error:
            self.problems[name] = [str(error)]
            return default

    def refuse(self) -> None:
        """Raises BadConfigError naming every wrong option."""
        if self.problems:
            raise BadConfigError(self.problems)


def parse_options(options: Mapping[str, str]) -> ReadOptions:
    """Return what the options say. Raises BadConfigError naming every wrong one."""
    reading = GivenOptions(options)
    given, problems, take = reading.given, reading.problems, reading.take
    if "connect.url" in given and "connector" not in given:
        problems["connect.url"] = [
            "is the worker to ask for the configuration of a deployed connector. Set connector to its name"
        ]

    limits = ReadLimits(
        take("until", _until, IDLE),
        take("idleMs", count_of, IDLE_MS),
        take("maxRecords", count_of, None),
        take("maxBytes", count_of, None),
    )
    max_wait_ms = take("maxWaitMs", count_of, None)
    starting = take("startingOffsets", _starting, ())
    commit_offsets = take("commitOffsets", _commit, False)
    whole = take("config", whole_config, {})
    decodes = _decodes(given, problems)
    columns = take("columns", _columns, tuple(COLUMNS))
    for rule in decodes:
        if rule.column not in columns:
            problems.setdefault("columns", []).append(f"has no {rule.column}, but {rule.option} needs it")
    reading.refuse()
    config = {name: value for name, value in given.items() if not _is_own(name)}
    connector, config = given.get("connector"), {**config, **whole}
    return ReadOptions(limits, starting, commit_offsets, connector, config, decodes, columns, max_wait_ms)


def _is_own(name: str) -> bool:
    own = {option.lower() for option in OWN}
    return name in own or name == "path" or any(name.startswith(f"{option.lower()}.") for option, _ in DECODES.values())


def _decodes(given: Mapping[str, str], problems: dict[str, list[str]]) -> tuple[Decode, ...]:
    found = []
    for column, (option, type_option) in DECODES.items():
        settings = prefixed(given, f"{option.lower()}.")
        asked, ddl = given.get(option.lower(), "").strip(), given.get(type_option.lower())
        if asked:
            found.append(Decode(column, asked.lower() if "." not in asked else asked, settings, ddl))
        elif ddl is not None or settings:
            problems[option] = [f"is missing. Set the format of the {column}"]
    return tuple(found)


def connector_config(
    config: Mapping[str, str], connector: Connector, plugin: Callable[[str], type[Any]], common: ConfigDef = SOURCE
) -> dict[str, str]:
    """Return the connector's configuration with its names in their own case, and defaults.

    ``common``: the settings that all connectors of its kind have.

    Raises BadConfigError if a declared setting is missing or wrong.
    """
    defaults = {**DEFAULTS, **connector.format_defaults, "name": "connectrt"}
    cased = _recased(defaults | dict(config), _alias_names(config))
    declared = connector.config_def()
    known = [*common.names(), *declared.names(), *chain_config_def(cased, plugin).names()]
    cased = _recased(cased, known)
    declared.parse(cased)
    complaints = {name: said for name, said in connector.validate(cased).items() if said}
    if complaints:
        raise BadConfigError(complaints)
    return cased


def _alias_names(config: Mapping[str, str]) -> Iterable[str]:
    """Yield the names of settings below aliases, with the aliases' own case."""
    for kind in ("transforms", "predicates"):
        aliases = {alias.lower(): alias for alias in parse_value(Type.LIST, config.get(kind) or "")}
        for name in config:
            first, _, rest = name.partition(".")
            alias, _, setting = rest.partition(".")
            if first == kind and alias in aliases and setting:
                yield f"{kind}.{aliases[alias]}.{setting}"


def _recased(config: Mapping[str, str], known: Iterable[str]) -> dict[str, str]:
    names = {name.lower(): name for name in known}
    return {names.get(name, name): value for name, value in config.items()}


def _until(text: str) -> str:
    if text.lower() not in (IDLE, LATEST):
        raise ValueError(f"{text!r} is not valid. Use {IDLE} or {LATEST}")
    return text.lower()


def count_of(text: str) -> int:
    """Parse a number of 0 or more. Raises ValueError."""
    if not text.strip().isdecimal():
        raise ValueError(f"{text!r} is not a number of 0 or more")
    return int(text)


def whole_config(text: str) -> dict[str, str]:
    """Parse the option ``config``. Raises ValueError, DataError."""
    tree = decode_json(text.encode())
    if not isinstance(tree, dict) or not all(isinstance(value, str) for value in tree.values()):
        raise ValueError("must be a JSON object of strings")
    return tree


def _columns(text: str) -> tuple[str, ...]:
    names = tuple(name.strip().lower() for name in text.split(","))
    unknown = [name for name in names if name not in COLUMNS]
    if unknown:
        raise ValueError(f"there is no column {unknown[0]!r}, only {', '.join(COLUMNS)}")
    if len(set(names)) < len(names):
        raise ValueError("has a column twice")
    return names


def _commit(text: str) -> bool:
    if text.lower() not in (CONNECT, "none"):
        raise ValueError(f"{text!r} is not valid. Use {CONNECT} or none")
    return text.lower() == CONNECT


def _starting(text: str) -> tuple[SourceOffset, ...] | str:
    if text.strip().lower() == "earliest":
        return ()
    if text.strip().lower() == CONNECT:
        return CONNECT
    tree = decode_json(text.encode())
    offsets = tree.get("offsets") if isinstance(tree, dict) else None
    if not isinstance(offsets, list) or not all(
        isinstance(offset, dict) and "partition" in offset for offset in offsets
    ):
        raise ValueError(
            'must be earliest, connect or the answer of GET /connectors/{name}/offsets: {"offsets": [...]}'
        )
    return tuple((offset["partition"], offset.get("offset")) for offset in offsets)


def _part(whole: int | None, tasks: int, task: int) -> int | None:
    return None if whole is None else whole // tasks + (task < whole % tasks)
