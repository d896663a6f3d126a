"""What is asked about plug-ins: the list, every plug-in's settings, and validations, good and bad.

Each request stands alone (nothing is created), so a worker of either kind answers them in any order.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from spark_connect_rt.plugins.bundled_plugins import PREDICATES, TRANSFORMATIONS
from tests.parity.conversation import Ask

JAVA = "org.apache.kafka.connect"
TRANSFORM = f"{JAVA}.transforms"
SOURCE = {"name": "a", "connector.class": "FileStreamSource", "file": "in.txt", "topic": "lines"}
SINK = {"name": "a", "connector.class": "FileStreamSink", "file": "out.txt", "topics": "lines"}
JSON = f"{JAVA}.json.JsonConverter"
STRING = f"{JAVA}.storage.StringConverter"
SIMPLE = f"{JAVA}.storage.SimpleHeaderConverter"
CONVERTERS = (
    JSON,
    STRING,
    SIMPLE,
    f"{JAVA}.converters.ByteArrayConverter",
    *(f"{JAVA}.converters.{kind}Converter" for kind in ("Boolean", "Double", "Float", "Integer", "Long", "Short")),
)
FILE_CONNECTORS = (f"{JAVA}.file.FileStreamSourceConnector", f"{JAVA}.file.FileStreamSinkConnector")
TEST_CONNECTORS = tuple(
    f"{JAVA}.tools.{name}Connector"
    for name in ("VerifiableSource", "VerifiableSink", "MockSource", "MockSink", "Mock", "SchemaSource")
)

Changes = dict[str, Any]


def _validate(name: str, path: str, config: Any) -> Ask:
    return Ask(f"validate {name}", "PUT", f"/connector-plugins/{path}/config/validate", config)


def _sources(cases: Mapping[str, Changes]) -> tuple[Ask, ...]:
    return tuple(
        _validate(f"source: {name}", "FileStreamSource", {**SOURCE, **changes}) for name, changes in cases.items()
    )


def _sinks(cases: Mapping[str, Changes]) -> tuple[Ask, ...]:
    return tuple(_validate(f"sink: {name}", "FileStreamSink", {**SINK, **changes}) for name, changes in cases.items())


def _chain(**settings: str) -> dict[str, str]:
    """Return ``t__x`` as ``transforms.t.x``; ``p__x`` as ``predicates.p.x``; both aliases are named."""
    kinds = {"t": "transforms", "p": "predicates"}
    found = {kinds[key[0]]: key[0] for key in settings}
    for key, value in settings.items():
        alias, _, name = key.partition("__")
        found[f"{kinds[alias]}.{alias}.{name.replace('__', '.')}"] = value
    return found


LISTS = tuple(
    Ask(f"list {query or 'plainly'}", "GET", f"/connector-plugins{query}")
    for query in ("", "?connectorsOnly=true", "?connectorsOnly=false", "?connectorsOnly=FALSE", "?connectorsOnly=maybe")
)

SETTINGS_OF = (
    *(
        Ask(f"settings of {name}", "GET", f"/connector-plugins/{quote(name)}/config")
        for name in (
            *FILE_CONNECTORS,
            *CONVERTERS,
            *(plugin.java_class for plugin in TRANSFORMATIONS),
            *(plugin.java_class for plugin in PREDICATES),
            "FileStreamSource",
            "FileStreamSourceConnector",
            "JsonConverter",
            "Json",
            "RegexRouter",
            "TopicNameMatches",
            "Cast$Key",
            "Nope",
            "java.lang.String",
            "org.apache.kafka.common.config.provider.FileConfigProvider",
            f"{JAVA}.connector.policy.AllConnectorClientConfigOverridePolicy",
        )
    ),
    Ask("settings of the latest", "GET", "/connector-plugins/RegexRouter/config?version=latest"),
    Ask("settings of no version", "GET", "/connector-plugins/RegexRouter/config?version="),
    Ask("settings of what is no version", "GET", "/connector-plugins/RegexRouter/config?version=%5B1"),
    Ask("settings of another version", "GET", "/connector-plugins/RegexRouter/config?version=0.1"),
    Ask("settings of an unknown one's version", "GET", "/connector-plugins/Nope/config?version=0.1"),
)

NAMES = (
    _validate("nothing", "FileStreamSource", {}),
    _validate("no class", "FileStreamSource", {"name": "a"}),
    _validate("class alone", "FileStreamSource", {"connector.class": "FileStreamSource"}),
    _validate("sink class alone", "FileStreamSink", {"connector.class": "FileStreamSink"}),
    _validate("a path with the whole name", FILE_CONNECTORS[0], SOURCE | {"connector.class": FILE_CONNECTORS[0]}),
    _validate("a short path, a whole class", "FileStreamSource", SOURCE | {"connector.class": FILE_CONNECTORS[0]}),
    _validate("a whole path, a short class", FILE_CONNECTORS[0], SOURCE),
    _validate("a simple name", "FileStreamSourceConnector", SOURCE),
    _validate("a simple class", "FileStreamSource", SOURCE | {"connector.class": "FileStreamSourceConnector"}),
    _validate("a path that is an end", "Source", SOURCE),
    _validate("another class", "FileStreamSink", SOURCE),
    _validate("another case", "filestreamsource", SOURCE),
    _validate("an unknown class", "Nope", SOURCE | {"connector.class": "Nope"}),
    _validate("an unknown path", "Nope", {"name": "a"}),
    _validate("a converter as a class", "JsonConverter", SOURCE | {"connector.class": "JsonConverter"}),
    _validate("no body", "FileStreamSource", b""),
    _validate("broken JSON", "FileStreamSource", b"{"),
    _validate("a list", "FileStreamSource", []),
    _validate("numbers and booleans", "FileStreamSource", SOURCE | {"tasks.max": 2, "errors.log.enable": True}),
    Ask("validate by GET", "GET", "/connector-plugins/FileStreamSource/config/validate"),
    Ask("config by PUT", "PUT", "/connector-plugins/FileStreamSource/config", {}),
    Ask("list by POST", "POST", "/connector-plugins", {}),
    Ask("plug-in alone", "GET", "/connector-plugins/FileStreamSource"),
)

COMMON = _sources(
    {
        "good": {},
        "no topic": {"topic": None},
        "an empty topic": {"topic": ""},
        "no file": {"file": None},
        "unknown settings": {"colour": "red", "transforms.x.y": "z"},
        "tasks.max 0": {"tasks.max": "0"},
        "tasks.max x": {"tasks.max": "x"},
        "tasks.max with spaces": {"tasks.max": " 3 "},
        "tasks.max too large": {"tasks.max": "3000000000"},
        "tasks.max empty": {"tasks.max": ""},
        "a boolean in capitals": {"tasks.max.enforce": " TRUE "},
        "a boolean that is none": {"errors.log.enable": "yes"},
        "an empty name": {"name": ""},
        "a name of spaces": {"name": "  "},
        "a name with a control character": {"name": "a\u0007\nb"},
        "a bad reload action": {"config.action.reload": "explode"},
        "bad error handling": {
            "errors.retry.timeout": "-2",
            "errors.retry.delay.max.ms": "0",
            "errors.tolerance": "some",
        },
        "another tolerance": {"errors.tolerance": "ALL"},
        "batch.size x": {"batch.size": "x"},
        "batch.size 0": {"batch.size": "0"},
        "exactly-once required": {"exactly.once.support": "required"},
        "bad exactly-once settings": {
            "exactly.once.support": "maybe",
            "transaction.boundary": "never",
            "transaction.boundary.interval.ms": "-1",
            "offsets.storage.topic": "",
        },
        "exactly-once in capitals": {"exactly.once.support": "REQUESTED", "transaction.boundary": "Interval"},
        "topic groups": {
            "topic.creation.groups": "x, y",
            "topic.creation.default.replication.factor": "1",
            "topic.creation.default.partitions": "1",
            "topic.creation.x.include": "x.*",
            "topic.creation.y.include": "y.*",
        },
        "a topic group without topics": {
            "topic.creation.groups": "x",
            "topic.creation.default.replication.factor": "1",
            "topic.creation.default.partitions": "1",
        },
        "topic groups twice": {
            "topic.creation.groups": "x,x",
            "topic.creation.default.replication.factor": "1",
            "topic.creation.default.partitions": "1",
            "topic.creation.x.include": "x.*",
        },
        "its own version": {"connector.plugin.version": "latest"},
        "a version that is none": {"connector.plugin.version": "[1"},
        "a version that is not there": {"connector.plugin.version": "0.1"},
    }
)

CONVERTING = _sources(
    {
        "an unknown converter": {"value.converter": "Nope"},
        "an unknown key converter": {"key.converter": "no.such.Thing"},
        "an empty converter": {"value.converter": ""},
        "an unknown header converter": {"header.converter": "Nope"},
        "a converter's alias": {"value.converter": "JsonConverter"},
        "a converter's short alias": {"value.converter": "Json"},
        "three JSON converters": {
            "key.converter": JSON,
            "key.converter.schemas.enable": "false",
            "value.converter": JSON,
            "value.converter.decimal.format": "numeric",
            "header.converter": JSON,
        },
        "bad JSON settings": {
            "value.converter": JSON,
            "value.converter.schemas.enable": "perhaps",
            "value.converter.schemas.cache.size": "-1",
            "value.converter.decimal.format": "roman",
            "value.converter.converter.type": "shoe",
            "value.converter.unknown": "x",
        },
        "a text converter": {"value.converter": STRING, "value.converter.converter.encoding": "UTF-16"},
        "a simple header converter": {"header.converter": SIMPLE},
        "bytes and numbers": {
            "key.converter": f"{JAVA}.converters.LongConverter",
            "value.converter": f"{JAVA}.converters.ByteArrayConverter",
        },
        "a transformation as converter": {"value.converter": f"{TRANSFORM}.RegexRouter"},
        "a connector as key converter": {"key.converter": "FileStreamSource"},
        "a header converter as converter": {"value.converter": SIMPLE},
        "a converter's version that is not there": {"value.converter": JSON, "value.converter.plugin.version": "0.1"},
        "a converter's version that is none": {"value.converter": JSON, "value.converter.plugin.version": "[1"},
        "a version without converter": {"value.converter.plugin.version": "0.1"},
    }
)

CHAINS = _sources(
    {
        **{
            f"{plugin.java_class.rpartition('.')[2]} without settings": _chain(t__type=plugin.java_class)
            for plugin in TRANSFORMATIONS
        },
        **{
            f"{plugin.java_class.rpartition('.')[2]} without settings": {
                "predicates": "p",
                "predicates.p.type": plugin.java_class,
            }
            for plugin in PREDICATES
        },
        "no transforms": {"transforms": ""},
        "a chain": {
            "transforms": "route, mask",
            "transforms.route.type": f"{TRANSFORM}.RegexRouter",
            "transforms.route.regex": "(.*)",
            "transforms.route.replacement": "x-$1",
            "transforms.route.predicate": "named",
            "transforms.route.negate": "true",
            "transforms.mask.type": f"{TRANSFORM}.MaskField$Value",
            "transforms.mask.fields": "a, b",
            "predicates": "named",
            "predicates.named.type": f"{TRANSFORM}.predicates.TopicNameMatches",
            "predicates.named.pattern": "y.*",
        },
        "an alias of a transformation": _chain(t__type="RegexRouter", t__regex="a", t__replacement="b"),
        "an alias of an inner class": _chain(t__type="Cast$Value", t__spec="int8"),
        "no type": {"transforms": "t"},
        "no type of a predicate": {"predicates": "p"},
        "an unknown transformation": _chain(t__type="Nope"),
        "an unknown predicate": {"predicates": "p", "predicates.p.type": "Nope"},
        "an empty type": _chain(t__type=""),
        "a converter as transformation": _chain(t__type=JSON),
        "a transformation as predicate": {"predicates": "p", "predicates.p.type": f"{TRANSFORM}.RegexRouter"},
        "negate without predicate": _chain(t__type=f"{TRANSFORM}.Filter", t__negate="true"),
        "negate that is none": _chain(
            t__type=f"{TRANSFORM}.Filter",
            t__negate="no",
            t__predicate="p",
            p__type=f"{TRANSFORM}.predicates.RecordIsTombstone",
        ),
        "an alias twice": {"transforms": "t,t", "transforms.t.type": f"{TRANSFORM}.Filter"},
        "a predicate's alias twice": {
            "predicates": "p,p",
            "predicates.p.type": f"{TRANSFORM}.predicates.RecordIsTombstone",
        },
        "bad cast": _chain(t__type=f"{TRANSFORM}.Cast$Value", t__spec="a:int7"),
        "bad cast syntax": _chain(t__type=f"{TRANSFORM}.Cast$Value", t__spec="a:b:c"),
        "bad boolean of a transformation": _chain(
            t__type=f"{TRANSFORM}.MaskField$Value", t__fields="a", t__replace__null__with__default="x"
        ),
        "empty fields": _chain(t__type=f"{TRANSFORM}.MaskField$Value", t__fields=""),
        "bad operation": _chain(
            t__type=f"{TRANSFORM}.HeaderFrom$Value", t__fields="a", t__headers="b", t__operation="steal"
        ),
        "bad target type": _chain(t__type=f"{TRANSFORM}.TimestampConverter$Value", t__target__type="year"),
        "bad precision": _chain(
            t__type=f"{TRANSFORM}.TimestampConverter$Value", t__target__type="unix", t__unix__precision="weeks"
        ),
        "bad renames": _chain(t__type=f"{TRANSFORM}.ReplaceField$Value", t__renames="a"),
        "bad syntax version": _chain(
            t__type=f"{TRANSFORM}.ExtractField$Value", t__field="a", t__field__syntax__version="V3"
        ),
        "bad schema version": _chain(t__type=f"{TRANSFORM}.SetSchemaMetadata$Value", t__schema__version="x"),
        "bad regex": _chain(t__type=f"{TRANSFORM}.RegexRouter", t__regex="(", t__replacement="b"),
        "bad pattern of a predicate": {
            "predicates": "p",
            "predicates.p.type": f"{TRANSFORM}.predicates.TopicNameMatches",
            "predicates.p.pattern": "(",
        },
        "an empty header name": {
            "predicates": "p",
            "predicates.p.type": f"{TRANSFORM}.predicates.HasHeaderKey",
            "predicates.p.name": "",
        },
        "a transformation's version that is not there": _chain(t__type=f"{TRANSFORM}.Filter", t__plugin__version="0.1"),
        "a transformation's version that is none": _chain(t__type=f"{TRANSFORM}.Filter", t__plugin__version="[1"),
    }
)

SINKS = _sinks(
    {
        "good": {},
        "a list of topics": {"topics": " a , b,c "},
        "no topics": {"topics": ""},
        "topics and a pattern": {"topics.regex": "x.*"},
        "a pattern": {"topics": "", "topics.regex": "x.*"},
        "a pattern that is none": {"topics": "", "topics.regex": "("},
        "a dead letter queue": {
            "errors.deadletterqueue.topic.name": "dlq",
            "errors.deadletterqueue.topic.replication.factor": "1",
            "errors.deadletterqueue.context.headers.enable": "true",
        },
        "its own dead letter queue": {"errors.deadletterqueue.topic.name": "lines"},
        "a dead letter queue of the pattern": {
            "topics": "",
            "topics.regex": "d.*",
            "errors.deadletterqueue.topic.name": "dlq",
        },
        "a bad replication factor": {"errors.deadletterqueue.topic.replication.factor": "x"},
        "the workers' group": {"consumer.override.group.id": "golden"},
    }
)

OVERRIDES = (
    *_sources(
        {
            "producer overrides": {
                "producer.override.linger.ms": "5",
                "producer.override.compression.type": "lz4",
                "producer.override.bootstrap.servers": "localhost:1",
                "producer.override.sasl.jaas.config": "secret",
            },
            "a producer override that is no number": {"producer.override.linger.ms": "x"},
            "an unknown producer override": {"producer.override.colour": "red"},
            "a consumer override": {"consumer.override.max.poll.records": "5"},
            "an admin override without topic groups": {"admin.override.retries": "5"},
            "an admin override": {
                "admin.override.retries": "5",
                "topic.creation.default.replication.factor": "1",
                "topic.creation.default.partitions": "1",
            },
        }
    ),
    *_sinks(
        {
            "consumer overrides": {
                "consumer.override.max.poll.records": "5",
                "consumer.override.security.protocol": "PLAINTEXT",
            },
            "a producer override without dead letter queue": {"producer.override.linger.ms": "5"},
            "overrides with a dead letter queue": {
                "errors.deadletterqueue.topic.name": "dlq",
                "producer.override.linger.ms": "5",
                "admin.override.retries": "5",
                "consumer.override.max.poll.records": "5",
            },
        }
    ),
)

OF_TEST_CONNECTORS = tuple(
    ask
    for name in TEST_CONNECTORS
    for ask in (
        Ask(f"settings of {name}", "GET", f"/connector-plugins/{name}/config"),
        _validate(f"{name} alone", name, {"connector.class": name}),
        _validate(
            f"{name} with settings",
            name.rpartition(".")[2],
            {
                "connector.class": name,
                "name": "a",
                "topic": "t",
                "topics": "t",
                "throughput": "10",
                "num.messages": "3",
                "mock_mode": "task-failure",
                "delay_ms": "x",
                "partition.count": "2",
            },
        ),
    )
)

ABOUT_PLUGINS = (*LISTS, *SETTINGS_OF, *NAMES, *COMMON, *CONVERTING, *CHAINS, *SINKS, *OVERRIDES)
POLICIES = ("None", "Principal")  # OVERRIDES are asked of a worker with each, too
