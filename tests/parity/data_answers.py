"""What ours makes of one recorded case, and whether it is what Java made of it."""

from __future__ import annotations

import base64
import datetime as dt
import json
import re
from collections.abc import Callable
from typing import Any

from spark_connect_rt.api.converter import Converter
from spark_connect_rt.api.data import values_convert as convert
from spark_connect_rt.api.data.schema import Schema, Type
from spark_connect_rt.api.data.schema_inference import infer_schema
from spark_connect_rt.api.data.schema_projector import project
from spark_connect_rt.api.data.simple_date_format import format_ms, pattern_parts
from spark_connect_rt.api.data.simple_date_parse import parse_prefix
from spark_connect_rt.api.data.struct import check_value
from spark_connect_rt.api.data.values_parse import parse_string
from spark_connect_rt.api.data.values_text import values_text
from spark_connect_rt.base.security.sasl import parse_jaas
from spark_connect_rt.config.config_def import ConfigDef, parse_value, text_of
from spark_connect_rt.errors import BadConfigError, DataError
from spark_connect_rt.plugins.bundled_plugins import bundled_plugins
from spark_connect_rt.records.converters.primitive_converters import SimpleHeaderConverter
from spark_connect_rt.records.pipeline.chain_config import chain_config_def, chain_problems
from tests.parity.golden.recordings import recording
from tests.parity.typed_values import Node, record_of, same, same_schema, schema_of, value_of

_RECORDED = dt.date.fromisoformat(recording("data-values")["recorded_on"])
CENTURY_START = (_RECORDED.year - 80, _RECORDED.month, _RECORDED.day)
_CLASSES = {  # Java's class names in messages -> ours
    "java.lang.String": "str", "java.lang.Boolean": "bool", "java.lang.Byte": "int", "java.lang.Short": "int",
    "java.lang.Integer": "int", "java.lang.Long": "int", "java.lang.Float": "float", "java.lang.Double": "float",
    "java.util.Date": "datetime", "java.math.BigDecimal": "Decimal", "java.util.ArrayList": "list",
    "java.util.HashMap": "dict", "java.util.LinkedHashMap": "dict", "[B": "bytes",
    "org.apache.kafka.connect.data.Struct": "Struct", "org.apache.kafka.connect.source.SourceRecord": "SourceRecord",
}  # fmt: skip
_CLASS_NAME = re.compile(r"(?:class )?(" + "|".join(map(re.escape, _CLASSES)) + r")(?![\w.])")
_CONFIG_ERRORS = ("ConfigException",)
_OPEN_ENDS = (r"(?<=Invalid regex: ).*", r"(?<=Timestamp missing on record: ).*")
OWN_WORDS = ("org.apache.kafka.connect.json.JsonConverter",)
"""Whose refusals are compared, but not their messages: ours name field and value, Java's mostly do not."""
_SPEECHLESS = (
    "NullPointerException",
    "ClassCastException",
    "NoSuchElementException",
    "NumberFormatException",
    "ArrayIndexOutOfBoundsException",
)


def words(message: str | None) -> str:
    """Return a message with Java's class names in Python's; dates are of one class in Java."""
    named = _CLASS_NAME.sub(lambda found: _CLASSES[found.group(1)], message or "")
    named = named.replace("Invalid Java object", "Invalid object")
    named = re.sub(r"^Invalid value .*? for configuration (?:[\w.]+: |[\w.]+$)?", "", named, flags=re.DOTALL)
    return re.sub(r"\b(date|time)\b(?=\)|$| is not| for|,| which| with| does)", "datetime", named)


def same_words(ours: str, java: str) -> bool:
    """Whether ours says what Java says; it may say more where Java only begins, or shows an address in memory."""
    mine, theirs = words(ours), words(java)
    known = re.split(r"[\w.$]+@[0-9a-f]+|" + "|".join(_OPEN_ENDS), theirs)[0]
    cut = len(known) < len(theirs) or theirs.endswith(": ")
    return mine == theirs or (cut and bool(known) and mine.startswith(known))


def difference(case: Node, java: Node) -> str | None:
    """Return what is different, None when nothing is."""
    if case["kind"] in ("transform", "predicate"):
        return _transform_difference(case, java)
    try:
        ours = ANSWERS[case["kind"]](case)
    except (DataError, BadConfigError) as error:
        if (case.get("class") in OWN_WORDS or case["kind"] == "jaas") and isinstance(java, dict) and "error" in java:
            return None
        return _error_difference(error, java)
    if isinstance(java, dict) and "error" in java:
        return f"Java refuses ({java['error']}), ours gives {ours!r}"
    return COMPARE.get(case["kind"], _value_difference)(case, ours, java)


def _error_difference(error: Exception, java: Node) -> str | None:
    if not isinstance(java, dict) or "error" not in java:
        return f"ours refuses ({error}), Java gives {json.dumps(java)}"
    kind, message = java["error"]
    wanted = BadConfigError if kind in _CONFIG_ERRORS else DataError
    if not isinstance(error, wanted):
        return f"ours is a {type(error).__name__}, Java's a {kind}"
    said = said_of(error)
    if any(kind in _SPEECHLESS or same_words(sentence, message or "") for sentence in said):
        return None
    return f"ours says {said!r}, Java ({kind}) {words(message)!r}"


def said_of(error: Exception) -> list[str]:
    """Return the messages of an error; a configuration's may be several, of which Java gives the first."""
    if isinstance(error, BadConfigError):
        return [why for found in error.problems.values() for why in found]
    return [str(error)]


def _value_difference(case: Node, ours: Any, java: Node) -> str | None:
    theirs = value_of(java, _schema_of_answer(case))
    return None if same(ours, theirs) else f"ours {ours!r}, Java {theirs!r}"


def _schema_of_answer(case: Node) -> Schema | None:
    temporal = {"Date": "Date", "Time": "Time", "Timestamp": "Timestamp"}
    if case["kind"] == "convert" and case["to"] in temporal:
        return Schema(Type.INT32, name=f"org.apache.kafka.connect.data.{case['to']}")
    return schema_of(case.get("target") or case.get("schema"))


def _plain_difference(case: Node, ours: Any, java: Node) -> str | None:
    return None if ours == java else f"ours {ours!r}, Java {java!r}"


def _pair_difference(case: Node, ours: Any, java: Node) -> str | None:
    schema = schema_of(java["schema"])
    value = value_of(java["value"], schema)
    if same_schema(ours.schema, schema) and same(ours.value, value):
        return None
    return f"ours {ours!r}, Java {schema!r} {value!r}"


def _inferred_difference(case: Node, ours: Any, java: Node) -> str | None:
    schema = schema_of(_widened(java["schema"]))
    return None if same_schema(ours, schema) else f"ours {ours!r}, Java {schema!r}"


def _widened(node: Node) -> Node:
    """Return a schema with the widths that a Python number has."""
    if not isinstance(node, dict) or "type" not in node:
        return node
    wide = {"INT8": "INT64", "INT16": "INT64", "INT32": "INT64", "FLOAT32": "FLOAT64"}
    parts = {name: _widened(part) for name, part in node.items() if name != "fields"}
    return {**node, **parts, "type": wide.get(node["type"], node["type"])}


def _convert(case: Node) -> Any:
    schema = schema_of(case["schema"])
    value = value_of(case["value"], schema)
    if case["to"] in _INTEGERS:
        return convert.convert_to_integer(schema, value, _INTEGERS[case["to"]])
    if case["to"] in _FLOATS:
        return convert.convert_to_float(schema, value, _FLOATS[case["to"]])
    if case["to"] == "Decimal":
        return convert.convert_to_decimal(schema, value, case["scale"])
    return getattr(convert, f"convert_to_{case['to'].lower()}")(schema, value)


_INTEGERS = {"Byte": Type.INT8, "Short": Type.INT16, "Integer": Type.INT32, "Long": Type.INT64}
_FLOATS = {"Float": Type.FLOAT32, "Double": Type.FLOAT64}


def _known(node: Node) -> Schema:
    schema = schema_of(node)
    assert schema is not None
    return schema


def _check(case: Node) -> str:
    schema = _known(case["schema"])
    check_value(schema, value_of(case["value"], schema))
    return "fits"


def _project(case: Node) -> Any:
    source = _known(case["source"])
    return project(source, value_of(case["value"], source), _known(case["target"]))


def _pattern(case: Node) -> Any:
    try:
        return pattern_parts(case["pattern"])
    except ValueError as error:
        raise DataError(str(error)) from error


def _jaas(case: Node) -> Any:
    module, options = parse_jaas(case["text"])
    return {"module": module, "options": options}


def _jaas_difference(case: Node, ours: Any, java: Node) -> str | None:
    simple = {**java, "module": java["module"].rpartition(".")[2]}  # ours knows modules by that
    return _plain_difference(case, ours, simple)


def _date_parse(case: Node) -> Any:
    found = parse_prefix(_pattern(case), case["text"], CENTURY_START)
    return None if found is None else list(found)


def encoded(data: bytes | None) -> str | None:
    """Return bytes as the recordings hold them."""
    return None if data is None else base64.b64encode(data).decode()


def _configured(case: Node) -> Any:
    made = bundled_plugins().class_of(case["class"])()
    made.configure(case["config"])
    return made


def _transform_difference(case: Node, java: Node) -> str | None:
    try:
        transformation = _configured(case)
    except BadConfigError as error:
        return _error_difference(error, java.get("refused") or java)
    if "error" in java:
        return f"Java fails wholly: {java['error']}"
    if "refused" in java:
        return f"Java refuses ({java['refused']['error']}), ours does not"
    results = java["records"] if "records" in java else java["answers"]
    found = []
    for given, theirs in zip(case["records"], results, strict=True):
        wrong = _record_difference(transformation, given, theirs)
        if wrong is not None:
            found.append(f"{json.dumps(given)[:300]}: {wrong}")
    return "; ".join(found) or None


def _record_difference(transformation: Any, given: Node, java: Node) -> str | None:
    record = record_of(given)
    try:
        ours = transformation.test(record) if hasattr(transformation, "test") else transformation.apply(record)
    except DataError as error:
        return _error_difference(error, java)
    if isinstance(java, dict) and "error" in java:
        return f"Java refuses ({java['error']}), ours gives {ours!r}"
    if ours is None or isinstance(ours, bool):
        return None if ours is java or ours == java else f"ours {ours!r}, Java {java!r}"
    wrong = [name for name, is_same in _compared(ours, record_of(java)) if not is_same]
    return f"different: {wrong}; ours {ours!r}; Java {json.dumps(java)}" if wrong else None


def _compared(ours: Any, theirs: Any) -> list[tuple[str, bool]]:
    headers = zip(ours.headers, theirs.headers, strict=False)
    return [
        ("kind", type(ours) is type(theirs)),
        *((name, getattr(ours, name) == getattr(theirs, name)) for name in ("topic", "partition", "timestamp_ms")),
        ("key_schema", same_schema(ours.key_schema, theirs.key_schema)),
        ("value_schema", same_schema(ours.value_schema, theirs.value_schema)),
        ("key", same(ours.key, theirs.key)),
        ("value", same(ours.value, theirs.value)),
        ("header count", len(ours.headers) == len(theirs.headers)),
        *(
            (
                f"header {a.key}",
                a.key == b.key and same_schema(a.schema, b.schema) and same(a.value, b.value),
            )
            for a, b in headers
        ),
    ]


def _config_def(case: Node) -> list[dict[str, Any]]:
    definition: ConfigDef = bundled_plugins().class_of(case["class"])().config_def()
    return [
        {
            "name": key.name,
            "type": key.type.value,
            "importance": key.importance.value,
            "required": key.required,
            "default": None if key.required else text_of(parse_value(key.type, key.default)),
        }
        for key in definition
    ]


def _validate(case: Node) -> list[dict[str, Any]]:
    find = bundled_plugins().class_of
    definition = chain_config_def(case["config"], find)
    problems = chain_problems(case["config"], find)
    return [
        {
            "name": config_value.name,
            "type": definition[config_value.name].type.value,
            "importance": definition[config_value.name].importance.value,
            "required": definition[config_value.name].required,
            "group": definition[config_value.name].group,
            "order": definition[config_value.name].order,
            "width": definition[config_value.name].width,
            "display_name": definition[config_value.name].display_name,
            "value": None if config_value.errors else text_of(config_value.value),
            "errors": [words(why) for why in problems.get(config_value.name, ())],
        }
        for config_value in definition.validate(case["config"])
    ]


def _same_validation(_: Node, ours: Any, java: Node) -> str | None:
    mine, theirs = {value["name"]: value for value in ours}, {value["name"]: value for value in java}
    if mine.keys() != theirs.keys():
        return f"ours lists {sorted(mine)}, Java {sorted(theirs)}"
    facts = ("type", "importance", "required", "group", "order", "width", "display_name")
    wrong = [
        (name, fact, mine[name][fact], theirs[name][fact])
        for name in mine
        for fact in facts
        if mine[name][fact] != theirs[name][fact]
    ]
    wrong += [
        (name, "errors", mine[name]["errors"], theirs[name]["errors"]) for name in mine if _fewer(mine, theirs, name)
    ]
    return f"(setting, fact, ours, Java): {wrong}" if wrong else None


def _fewer(mine: Any, theirs: Any, name: str) -> bool:
    """Whether ours leaves out a complaint of Java's."""
    return any(not any(same_words(error, why) for error in mine[name]["errors"]) for why in theirs[name]["errors"])


def _same_keys(_: Node, ours: Any, java: Node) -> str | None:
    by_name = {key["name"]: key for key in java}
    mine = {key["name"]: key for key in ours}
    return None if mine == by_name else f"ours {mine}, Java {by_name}"


def _converter(case: Node) -> Converter:
    made: Converter = bundled_plugins().class_of(case["class"])()
    made.configure(case.get("config", {}), is_key=False)
    return made


def _write(case: Node) -> str | None:
    schema = schema_of(case["schema"])
    return encoded(_converter(case).from_connect_data("t", schema, value_of(case["value"], schema)))


def _write_header(case: Node) -> str | None:
    schema = schema_of(case["schema"])
    return encoded(SimpleHeaderConverter().from_connect_header("t", "h", schema, value_of(case["value"], schema)))


def _decoded(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


ANSWERS: dict[str, Callable[[Node], Any]] = {
    "parse": lambda case: parse_string(case["text"]),
    "text": lambda case: values_text(schema_of(case["schema"]), value_of(case["value"], schema_of(case["schema"]))),
    "convert": _convert,
    "infer": lambda case: infer_schema(value_of(case["value"])),
    "project": _project,
    "check": _check,
    "date_format": lambda case: format_ms(_pattern(case), case["ms"]),
    "date_parse": _date_parse,
    "jaas": _jaas,
    "config_def": _config_def,
    "validate": _validate,
    "write": _write,
    "read": lambda case: _converter(case).to_connect_data("t", _decoded(case["bytes"])),
    "write_header": _write_header,
    "read_header": lambda case: SimpleHeaderConverter().to_connect_header("t", "h", _decoded(case["bytes"])),
}
COMPARE: dict[str, Callable[[Node, Any, Node], str | None]] = {
    "parse": _pair_difference,
    "text": _plain_difference,
    "infer": _inferred_difference,
    "check": _plain_difference,
    "date_format": _plain_difference,
    "date_parse": _plain_difference,
    "jaas": _jaas_difference,
    "config_def": _same_keys,
    "validate": _same_validation,
    "write": _plain_difference,
    "read": _pair_difference,
    "write_header": _plain_difference,
    "read_header": _pair_difference,
}
