# ruff: noqa: E501 - one line a group of inputs
"""Inputs for Java's transformations and predicates."""

from __future__ import annotations

from typing import Any

from tests.parity.data_inputs import (
    BOOLEAN,
    BYTES,
    DATE_SCHEMA,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    TIME_SCHEMA,
    TIMESTAMP_SCHEMA,
    Node,
    array,
    array_schema,
    boolean,
    data,
    date,
    dec,
    decimal_schema,
    f32,
    f64,
    i8,
    i16,
    i32,
    i64,
    map_schema,
    mapping,
    optional,
    schema,
    struct,
    struct_schema,
    text,
)  # fmt: skip

PACKAGE = "org.apache.kafka.connect.transforms."
TWO_SIDED = (
    "Cast",
    "ExtractField",
    "Flatten",
    "HeaderFrom",
    "HoistField",
    "InsertField",
    "MaskField",
    "ReplaceField",
    "SetSchemaMetadata",
    "TimestampConverter",
)
WHOLE = ("DropHeaders", "Filter", "InsertHeader", "RegexRouter", "TimestampRouter", "ValueToKey")
PREDICATES = ("HasHeaderKey", "RecordIsTombstone", "TopicNameMatches")
MS = 1_577_934_245_678

EVERY = struct_schema(
    {
        "int8": INT8, "int16": INT16, "int32": INT32, "int64": INT64, "float32": FLOAT32, "float64": FLOAT64, "bool": BOOLEAN, "string": STRING, "bytes": BYTES,
        "decimal": decimal_schema(2), "date": DATE_SCHEMA, "time": TIME_SCHEMA, "timestamp": TIMESTAMP_SCHEMA, "array": array_schema(INT32), "map": map_schema(STRING, INT32), "opt": optional(INT32), "dflt": {**INT32, "default": i32(42)}, "optdflt": optional(STRING, default=text("dd")),
    },
    name="every", version=3, doc="of all types", parameters={"p": "q"},
)  # fmt: skip
EVERY_VALUE = struct(
    EVERY,
    {
        "int8": i8(8), "int16": i16(300), "int32": i32(70000), "int64": i64(2**40 + 3), "float32": f32("1.1"), "float64": f64("-300.7"), "bool": boolean(True), "string": text("42"), "bytes": data(b"\x00\xff"),
        "decimal": dec("300.75"), "date": date(86_400_000 * 18000), "time": date(45_296_789), "timestamp": date(MS), "array": array(i32(1), i32(2)), "map": mapping({"k": i32(1)}),
    },
)  # fmt: skip
FLAT = struct_schema({"a": INT32, "b": optional(STRING), "c": optional(FLOAT64, default=f64("2.5"))}, name="flat")
FLAT_VALUE = struct(FLAT, {"a": i32(5), "b": text("x")})
INNER = struct_schema({"x": INT32, "y.z": optional(STRING), "t`k": optional(INT8)}, name="inner")
NESTED = struct_schema({"n": INNER, "o": optional(INNER), "top": STRING, "list": array_schema(INT32)})
NESTED_VALUE = struct(
    NESTED, {"n": struct(INNER, {"x": i32(1), "y.z": text("q"), "t`k": i8(2)}), "top": text("T"), "list": array(i32(9))}
)
WITH_DEFAULT = struct_schema(
    {
        "in": struct_schema({"f": {**INT32, "default": i32(3)}, "g": optional(STRING)}, optional=True),
        "h": optional(INT64),
    },
    optional=True,
)
DEFAULTED_INNER = struct_schema({"f": optional(INT32), "g": optional(STRING)})
DEFAULTED = struct_schema(
    {"in": {**DEFAULTED_INNER, "default": struct(DEFAULTED_INNER, {"f": i32(7)})}, "h": optional(INT64)}
)

MAP = mapping(
    {
        "a": i64(5),
        "b": text("x"),
        "c": f64("1.5"),
        "n": mapping({"x": i64(1), "y": mapping({"z": boolean(True)})}),
        "l": array(i64(1), text("two")),
        "nil": None,
        "bool": boolean(False),
        "bytes": data(b"ab"),
    }
)
SMALL = mapping({"a": i64(300), "b": text("7"), "ts": i64(MS), "when": text("2020-01-02")})


def value(of: Node | None, schema_node: Node | None = None, **parts: Any) -> Node:
    node: Node = {"value": of, **parts}
    if schema_node is not None:
        node["value_schema"] = schema_node
    return node


HEADERS = [["h1", STRING, text("one")], ["h2", INT32, i32(2)], ["h1", None, text("again")]]
RECORDS = [
    value(None), value(None, optional(STRING)), value(EVERY_VALUE, EVERY), value(FLAT_VALUE, FLAT), value(NESTED_VALUE, NESTED), value(MAP), value(SMALL), value(i64(7)), value(text("text")), value(text("text"), STRING), value(i32(7), INT32),
    value(struct(FLAT, {"a": i32(1)}), FLAT, topic="other", partition=3, timestamp=MS, headers=HEADERS), value(SMALL, topic="sink", partition=1, offset=77, timestamp=MS), value(FLAT_VALUE, FLAT, topic="sink", partition=1, offset=77),
    value(None, optional(FLAT)), value(array(i64(1)), None), value(array(i32(1)), array_schema(INT32)), value(mapping({"k": i32(1)}), map_schema(STRING, INT32)),
]  # fmt: skip


def cast_cases() -> list[Node]:
    kinds = ("int8", "int16", "int32", "int64", "float32", "float64", "boolean", "string")
    castable = (
        "int8",
        "int16",
        "int32",
        "int64",
        "float32",
        "float64",
        "bool",
        "string",
        "bytes",
        "decimal",
        "date",
        "time",
        "timestamp",
        "array",
        "opt",
        "dflt",
        "optdflt",
    )
    cases = [
        case_of("Cast$Value", {"spec": f"{name}:{kind}"}, [value(EVERY_VALUE, EVERY)])
        for name in castable
        for kind in kinds
    ]
    scalars = [
        (INT8, i8(-5)), (INT64, i64(2**63 - 1)), (INT64, i64(0)), (FLOAT32, f32("3.4028235E38")), (FLOAT64, f64("1.0E300")), (FLOAT64, f64("NaN")), (FLOAT64, f64("-Infinity")), (FLOAT64, f64("127.9")), (FLOAT64, f64("-0.5")), (FLOAT64, f64("0.1")), (FLOAT64, f64("1.0E10")),
        (BOOLEAN, boolean(False)), (STRING, text("12")), (STRING, text(" 12")), (STRING, text("+12")), (STRING, text("1.5")), (STRING, text("true")), (STRING, text("TRUE")), (STRING, text("")), (STRING, text("300")), (STRING, text("1e3")), (STRING, text("NaN")), (STRING, text("1.5f")), (STRING, text("0x1p3")), (STRING, text(" 2.5 ")), (STRING, text("-Infinity")), (STRING, text("99999999999999999999")), (STRING, text("1e400")), (STRING, text("0.1")),
        (BYTES, data(b"abc")), (decimal_schema(2), dec("-1.55")), (decimal_schema(0), dec("12345678901234567890")), (TIMESTAMP_SCHEMA, date(MS)), (TIMESTAMP_SCHEMA, date(0)), (DATE_SCHEMA, date(86_400_000)), (DATE_SCHEMA, date(0)), (TIME_SCHEMA, date(1)),
        ({**INT32, "default": i32(300)}, i32(5)), (optional(STRING, default=text("5")), text("6")), (optional(STRING, default=text("x")), text("6")), (schema("INT32", name="n", version=2, doc="d", parameters={"a": "b"}), i32(1)),
    ]  # fmt: skip
    for kind in kinds:
        cases.append(case_of("Cast$Value", {"spec": kind}, [value(of, schema_node) for schema_node, of in scalars]))
        plain = [
            value(of) for schema_node, of in scalars if schema_node["type"] in ("INT64", "FLOAT64", "STRING", "BOOLEAN")
        ]
        cases.append(
            case_of(
                "Cast$Value",
                {"spec": kind},
                [
                    *plain,
                    value(data(b"a")),
                    value(dec("1.5")),
                    value(date(MS)),
                    value(array()),
                    value(mapping({})),
                    value(FLAT_VALUE),
                ],
            )
        )
    cases += [
        case_of("Cast$Value", {"spec": spec}, RECORDS)
        for spec in (
            "a:string",
            "a:int8,b:string,zzz:int32",
            "int8:int64,opt:float32,dflt:string,optdflt:boolean",
            "string",
        )
    ]
    for spec in (
        "",
        "a:",
        "a",
        ":int8",
        "a:b:c",
        "a:int9",
        "a:array",
        "bytes",
        "int8,a:int8",
        "int8,int16",
        " a : int8 ",
        "a:INT8",
        "a:int8,a:int16",
        "a:int8:",
        "struct",
    ):
        cases.append(case_of("Cast$Value", {"spec": spec}, [value(SMALL), value(FLAT_VALUE, FLAT)]))
    cases.append(case_of("Cast$Value", {}, []))
    for flag in ("true", "false", "maybe"):
        cases.append(
            case_of(
                "Cast$Value",
                {"spec": "c:string,b:int8", "replace.null.with.default": flag},
                [value(struct(FLAT, {"a": i32(1)}), FLAT)],
            )
        )
    return cases


def case_of(name: str, config: dict[str, str | None], records: list[Node]) -> Node:
    return {"kind": "transform", "class": PACKAGE + name, "config": config, "records": records}


def predicate(name: str, config: dict[str, str | None], records: list[Node]) -> Node:
    return {"kind": "predicate", "class": f"{PACKAGE}predicates.{name}", "config": config, "records": records}


def field_cases() -> list[Node]:
    cases = []
    for path in ("a", "b", "c", "zzz", "n", "n.x", "", "opt", "dflt", "optdflt", "nil"):
        cases.append(case_of("ExtractField$Value", {"field": path}, RECORDS))
    paths = (
        "a",
        "n.x",
        "n.`y.z`",
        "n.y.z",
        "n.zz",
        "zz.x",
        "top.x",
        "o.x",
        "`n`.x",
        "`n.x`",
        "`n",
        "n.`x",
        "`n`x",
        "`n`.`x`",
        "n.",
        ".n",
        "",
        "`a\\`.b`.c",
        "`a\\`",
        "n.`t`k`",
        "a`b",
        "``",
        "n..x",
        "n.y.z.w",
        "l.x",
        "nil.x",
        "`n`.`y.z`",
    )
    for path in paths:
        for version in ("V2", "v2"):
            cases.append(
                case_of(
                    "ExtractField$Value",
                    {"field": path, "field.syntax.version": version},
                    [
                        value(NESTED_VALUE, NESTED),
                        value(MAP),
                        value(mapping({"n.x": i64(3), "a`.b": mapping({"c": i64(4)}), "": i64(5)})),
                        value(None, NESTED),
                    ],
                )
            )
    cases.append(case_of("ExtractField$Value", {"field": "a", "field.syntax.version": "V3"}, []))
    cases.append(case_of("ExtractField$Value", {}, []))
    for flag in ("true", "false"):
        cases.append(
            case_of("ExtractField$Value", {"field": "c", "replace.null.with.default": flag}, [value(FLAT_VALUE, FLAT)])
        )
        cases.append(
            case_of(
                "ReplaceField$Value", {"include": "c", "replace.null.with.default": flag}, [value(FLAT_VALUE, FLAT)]
            )
        )
        cases.append(
            case_of(
                "InsertField$Value", {"topic.field": "t", "replace.null.with.default": flag}, [value(FLAT_VALUE, FLAT)]
            )
        )
        cases.append(
            case_of("MaskField$Value", {"fields": "c", "replace.null.with.default": flag}, [value(FLAT_VALUE, FLAT)])
        )
        cases.append(
            case_of(
                "SetSchemaMetadata$Value",
                {"schema.name": "c", "replace.null.with.default": flag},
                [value(FLAT_VALUE, FLAT)],
            )
        )
        cases.append(
            case_of(
                "TimestampConverter$Value",
                {"field": "b", "target.type": "unix", "format": "yyyy", "replace.null.with.default": flag},
                [value(struct(FLAT, {"a": i32(1), "b": text("2020")}), FLAT)],
            )
        )
        cases.append(
            case_of("ValueToKey", {"fields": "c", "replace.null.with.default": flag}, [value(FLAT_VALUE, FLAT)])
        )
        for operation in ("move", "copy"):
            cases.append(
                case_of(
                    "HeaderFrom$Value",
                    {"fields": "c", "headers": "h", "operation": operation, "replace.null.with.default": flag},
                    [value(FLAT_VALUE, FLAT)],
                )
            )
    for config in (
        {},
        {"exclude": "a"},
        {"include": "a"},
        {"include": "a,b", "exclude": "b"},
        {"renames": "a:z"},
        {"renames": "a:b"},
        {"renames": "a:b,b:a"},
        {"include": "a", "renames": "a:z,b:y"},
        {"exclude": "zzz"},
        {"include": "zzz"},
        {"renames": "a"},
        {"renames": "a:b:c"},
        {"renames": "a:"},
        {"renames": ":a"},
        {"renames": "a: b"},
        {"exclude": " a , b "},
    ):
        cases.append(case_of("ReplaceField$Value", config, RECORDS))
    for delimiter in (None, "_", ""):
        cases.append(
            case_of(
                "Flatten$Value",
                {} if delimiter is None else {"delimiter": delimiter},
                [
                    *RECORDS,
                    value(struct(WITH_DEFAULT, {"h": i64(1)}), WITH_DEFAULT),
                    value(struct(DEFAULTED, {}), DEFAULTED),
                    value(None, WITH_DEFAULT),
                    value(mapping({"a.b": mapping({"c": i64(1)}), "a": mapping({"b": mapping({"c": i64(2)})})})),
                    value(mapping({"d": date(MS)})),
                    value(mapping({"s": FLAT_VALUE})),
                    value(mapping({"e": mapping({})})),
                ],
            )
        )
    clash = struct_schema({"a": struct_schema({"b": INT32}), "a.b": INT32})
    cases.append(
        case_of(
            "Flatten$Value",
            {},
            [value(struct(clash, {"a": struct(struct_schema({"b": INT32}), {"b": i32(1)}), "a.b": i32(2)}), clash)],
        )
    )
    cases += [
        case_of("HoistField$Value", {"field": "f"}, RECORDS),
        case_of("HoistField$Value", {}, []),
        case_of("HoistField$Value", {"field": ""}, RECORDS[:6]),
    ]
    return cases


def insert_cases() -> list[Node]:
    cases = []
    for config in (
        {"topic.field": "t"}, {"topic.field": "t!"}, {"topic.field": "t?"}, {"partition.field": "p"}, {"partition.field": "p!"}, {"offset.field": "o"}, {"offset.field": "o!"}, {"timestamp.field": "ts"}, {"timestamp.field": "ts!"}, {"static.field": "s", "static.value": "v"}, {"static.field": "s!", "static.value": ""},
        {"topic.field": "t", "partition.field": "p", "timestamp.field": "ts", "static.field": "s", "static.value": "v"}, {"topic.field": "a"}, {"topic.field": "x", "static.field": "x", "static.value": "v"}, {"topic.field": "!"}, {}, {"static.field": "s"}, {"static.value": "v"}, {"topic.field": ""},
    ):  # fmt: skip
        cases.append(case_of("InsertField$Value", config, RECORDS))
    for literal in ("text", "5", "true", "null", "", "[1,2]", "2020-01-02", '{"a":1}', "1.5", "12:34:56.789Z"):
        cases.append(case_of("InsertHeader", {"header": "h1", "value.literal": literal}, [RECORDS[3], RECORDS[11]]))
    cases += [
        case_of("InsertHeader", {"header": "h"}, []),
        case_of("InsertHeader", {"value.literal": "h"}, []),
        case_of("DropHeaders", {}, []),
        case_of("DropHeaders", {"headers": ""}, []),
    ]
    cases += [
        case_of("DropHeaders", {"headers": names}, [RECORDS[3], RECORDS[11]])
        for names in ("h1", "h2", "zz", "h1,h2", " h1 ")
    ]
    for fields, headers in (
        ("a", "h1"),
        ("a,b", "x,y"),
        ("b,a", "x,x"),
        ("zzz", "x"),
        ("a", "x,y"),
        ("", ""),
        ("nil", "x"),
        ("string,bytes,date,array", "a,b,c,d"),
    ):
        for operation in ("move", "copy"):
            cases.append(
                case_of("HeaderFrom$Value", {"fields": fields, "headers": headers, "operation": operation}, RECORDS)
            )
    cases += [
        case_of("HeaderFrom$Value", {"fields": "a", "headers": "b", "operation": "cut"}, []),
        case_of("HeaderFrom$Value", {"fields": "a", "headers": "b"}, []),
        case_of("Filter", {}, RECORDS[:4]),
    ]
    return cases


def mask_cases() -> list[Node]:
    cases = []
    names = (
        "int8",
        "int16",
        "int32",
        "int64",
        "float32",
        "float64",
        "bool",
        "string",
        "bytes",
        "decimal",
        "date",
        "time",
        "timestamp",
        "array",
        "map",
        "opt",
        "dflt",
        "optdflt",
    )
    for name in names:
        for replacement in (None, "12", "300", "1.5", "text", "1e3", "true", " 7"):
            config: dict[str, str | None] = {"fields": name}
            if replacement is not None:
                config["replacement"] = replacement
            cases.append(case_of("MaskField$Value", config, [value(EVERY_VALUE, EVERY)]))
    for replacement in (None, "12", "text", ""):
        config = (
            {"fields": "a,b,c,l,n,nil,bool,zzz"}
            if replacement is None
            else {"fields": "a,b,c,zzz", "replacement": replacement}
        )
        cases.append(case_of("MaskField$Value", config, RECORDS))
    cases += [
        case_of(
            "MaskField$Value",
            {"fields": name},
            [
                value(MAP),
                value(mapping({name: dec("1.5")})),
                value(mapping({name: date(MS)})),
                value(mapping({name: FLAT_VALUE})),
            ],
        )
        for name in ("bytes", "d")
    ]
    cases += [
        case_of(
            "MaskField$Value",
            {"fields": "d", "replacement": given},
            [
                value(mapping({"d": dec("1.5")})),
                value(mapping({"d": date(MS)})),
                value(mapping({"d": f64("1.5")})),
                value(mapping({"d": boolean(True)})),
            ],
        )
        for given in ("7.50", "x")
    ]
    cases += [case_of("MaskField$Value", {}, []), case_of("MaskField$Value", {"fields": ""}, [])]
    return cases


def routing_cases() -> list[Node]:
    topics = ["topic", "orders-2020", "a.b.c", "", "aab", "x$y", "db.schema.table_01", "ORDERS"]
    records = [value(text("v"), STRING, topic=name) for name in topics]
    cases = []
    for regex, replacement in (
        ("(.*)", "$1"), ("(.*)", "pre-$1-post"), ("(\\w+)-(\\d+)", "$2/$1"), ("a|aa?b", "X"), ("([^.]*)\\.([^.]*)\\.(.*)", "$3_$1"), ("(?<db>[^.]+)\\.(?<rest>.*)", "${rest}.${db}"), (".*", "fixed"), (".*", ""), ("topic", "\\$1"), ("(t)(o)(p)(i)(c)", "$5$4$3$2$1"), ("(t)opic", "$12"), ("(t)opic", "$2"), ("topic", "$"), ("topic", "$x"), ("topic", "\\"), ("topic", "${none}"), ("topic", "${"), ("topic", "${a"), ("topic", "$0!"),
        ("[", "x"), ("(", "x"), ("nomatch", "x"), ("(?i)orders", "low"), ("\\Qx$y\\E", "q"), ("\\p{Lower}+", "lower"), ("[a-z&&[^b]]+", "inter"), ("(a)?(aa)?b?.*", "[$1|$2]"), ("t.*?", "lazy"), ("x\\$y", "\\\\"), ("to++pic", "poss"), ("topic|$", "alt"), ("\\d*", "d"), ("(?:db)\\.(schema)\\..*", "$1"),
    ):  # fmt: skip
        cases.append(case_of("RegexRouter", {"regex": regex, "replacement": replacement}, records))
    cases += [case_of("RegexRouter", {"regex": "a"}, []), case_of("RegexRouter", {"replacement": "a"}, [])]
    stamped = [
        value(text("v"), STRING, topic=name, timestamp=ms)
        for name, ms in (("t", 0), ("t", MS), ("${timestamp}", MS), ("a$1", -1), ("t", 4_102_444_800_000))
    ]
    for config in (
        {},
        {"topic.format": "${timestamp}/${topic}"},
        {"topic.format": "x"},
        {"timestamp.format": "yyyy-MM"},
        {"timestamp.format": "yyyy-'W'ww"},
        {"topic.format": "${topic}${topic}-${timestamp}", "timestamp.format": "HHmmssSSS"},
        {"topic.format": "", "timestamp.format": ""},
    ):
        cases.append(case_of("TimestampRouter", config, stamped))
    cases.append(case_of("TimestampRouter", {}, [value(text("v"), STRING)]))
    for fields in ("a", "a,b", "b,a", "zzz", "", "a,a", "nil", "string,date,map"):
        cases.append(case_of("ValueToKey", {"fields": fields}, RECORDS))
    cases.append(case_of("ValueToKey", {}, []))
    for config in (
        {"schema.name": "new"},
        {"schema.version": "9"},
        {"schema.name": "new", "schema.version": "9"},
        {},
        {"schema.version": "x"},
        {"schema.name": ""},
    ):
        cases.append(case_of("SetSchemaMetadata$Value", config, RECORDS))
    everywhere = [*RECORDS, *records]
    cases += [predicate("HasHeaderKey", {"name": name}, RECORDS) for name in ("h1", "h2", "zz", "")] + [
        predicate("HasHeaderKey", {}, []),
        predicate("RecordIsTombstone", {}, RECORDS),
    ]
    cases += [
        predicate("TopicNameMatches", {"pattern": pattern}, everywhere)
        for pattern in ("topic", "top", ".*", "t.*", "(?i)orders", "[", "", "a|aab", "\\w+-\\d+")
    ] + [predicate("TopicNameMatches", {}, [])]
    return cases


def timestamp_cases() -> list[Node]:
    moments = [
        value(date(MS), TIMESTAMP_SCHEMA), value(date(-1), TIMESTAMP_SCHEMA), value(date(86_400_000 * 18000), DATE_SCHEMA), value(date(45_296_789), TIME_SCHEMA), value(i64(MS), INT64), value(i64(-1500), INT64), value(i64(0), optional(INT64)), value(text("2020-01-02 03:04:05"), STRING), value(text("2020-13-45 25:61:61"), STRING), value(text("nonsense"), STRING), value(text(""), STRING),
        value(i32(5), INT32), value(f64("1.5"), FLOAT64), value(None, optional(TIMESTAMP_SCHEMA)), value(None, optional(STRING)), value(None), value(date(MS)), value(i64(MS)), value(text("2020-01-02 03:04:05")), value(f64("1.5")), value(boolean(True)), value(data(b"a")), value(MAP), value(FLAT_VALUE, FLAT), value(date(MS), optional(TIMESTAMP_SCHEMA)), value(i64(1_577_934_245), INT64),
    ]  # fmt: skip
    whole = struct_schema(
        {"w": optional(TIMESTAMP_SCHEMA), "x": optional(INT64, default=i64(5)), "s": optional(STRING), "other": INT32},
        name="whole",
        version=2,
    )
    fields = [
        value(struct(whole, {"w": date(MS), "x": i64(MS), "s": text("2020-01-02 03:04:05"), "other": i32(1)}), whole),
        value(struct(whole, {"other": i32(1)}), whole),
        value(None, optional(whole)),
        value(None, whole),
        value(SMALL),
        value(MAP),
        value(None),
        value(text("x")),
        value(mapping({"w": date(MS), "x": i64(5), "s": text("1999-12-31 23:59:59")})),
    ]
    with_default = {
        **struct_schema({"w": TIMESTAMP_SCHEMA}),
        "default": struct(struct_schema({"w": TIMESTAMP_SCHEMA}), {"w": date(MS)}),
        "optional": True,
    }
    cases = []
    for kind in ("string", "unix", "Date", "Time", "Timestamp"):
        config: dict[str, str | None] = {"target.type": kind, "format": "yyyy-MM-dd HH:mm:ss"}
        cases.append(case_of("TimestampConverter$Value", config, moments))
        for name in ("w", "x", "s", "other", "zzz"):
            cases.append(case_of("TimestampConverter$Value", {**config, "field": name}, fields))
        for precision in ("seconds", "milliseconds", "microseconds", "nanoseconds"):
            if kind in ("string", "unix", "Timestamp"):
                cases.append(
                    case_of(
                        "TimestampConverter$Value",
                        {**config, "unix.precision": precision},
                        [
                            value(date(MS), TIMESTAMP_SCHEMA),
                            value(date(-1500), TIMESTAMP_SCHEMA),
                            value(i64(MS), INT64) if precision != "seconds" else value(i64(MS // 1000), INT64),
                            value(i64(-1_500_001), INT64),
                        ],
                    )
                )
        cases.append(
            case_of(
                "TimestampConverter$Value",
                {**config, "field": "w"},
                [value(struct(struct_schema({"w": TIMESTAMP_SCHEMA}), {"w": date(1)}), with_default)],
            )
        )
    for config in (
        {},
        {"target.type": "string"},
        {"target.type": "date"},
        {"target.type": "unix", "unix.precision": "days"},
        {"target.type": "string", "format": "yyyy-b"},
        {"target.type": "string", "format": "  "},
        {"target.type": "unix"},
    ):
        cases.append(case_of("TimestampConverter$Value", config, moments[:8]))
    for pattern in ("yyyy-MM-dd'T'HH:mm:ss.SSSXXX", "EEE, d MMM yyyy HH:mm:ss Z", "yyMMdd", "MMM d, yyyy h:mm a"):
        cases.append(case_of("TimestampConverter$Value", {"target.type": "string", "format": pattern}, moments[:7]))
    return cases


def key_cases() -> list[Node]:
    """The key variants differ in nothing but the side."""
    records = [
        {"key": EVERY_VALUE, "key_schema": EVERY, "value": text("v"), "value_schema": STRING},
        {"key": SMALL, "value": i64(1)},
        {"key": FLAT_VALUE, "key_schema": FLAT, "value": None, "headers": HEADERS},
        {"key": i64(MS), "key_schema": INT64},
        {"key": None},
    ]
    configs: dict[str, dict[str, str | None]] = {
        "Cast": {"spec": "a:string"}, "ExtractField": {"field": "a"}, "Flatten": {}, "HeaderFrom": {"fields": "a", "headers": "h", "operation": "move"}, "HoistField": {"field": "f"}, "InsertField": {"topic.field": "t"}, "MaskField": {"fields": "a,int8"}, "ReplaceField": {"exclude": "a"}, "SetSchemaMetadata": {"schema.name": "n"}, "TimestampConverter": {"target.type": "Timestamp"},
    }  # fmt: skip
    return [case_of(f"{name}$Key", config, records) for name, config in configs.items()]


def config_defs() -> list[Node]:
    names = (
        [f"{name}${side}" for name in TWO_SIDED for side in ("Key", "Value")]
        + list(WHOLE)
        + [f"predicates.{name}" for name in PREDICATES]
    )
    return [{"kind": "config_def", "class": PACKAGE + name} for name in names]


def validations() -> list[Node]:
    """Configurations of whole chains: which settings Java lists, and what it says of them."""
    common: dict[str, str | None] = {"name": "n", "connector.class": "FileStreamSource", "file": "f", "topic": "t"}
    chains: list[dict[str, str | None]] = [
        {
            "transforms": "a",
            "transforms.a.type": "RegexRouter",
            "transforms.a.regex": "x",
            "transforms.a.replacement": "y",
        },
        {"transforms": "a", "transforms.a.type": f"{PACKAGE}RegexRouter", "transforms.a.regex": "["},
        {
            "transforms": "a,b",
            "transforms.a.type": f"{PACKAGE}Cast$Value",
            "transforms.a.spec": "a:int8",
            "transforms.b.type": f"{PACKAGE}Filter",
            "transforms.b.predicate": "p",
            "transforms.b.negate": "true",
            "predicates": "p",
            "predicates.p.type": f"{PACKAGE}predicates.TopicNameMatches",
            "predicates.p.pattern": "a.*",
        },
        {"transforms": "a", "transforms.a.type": f"{PACKAGE}Filter", "transforms.a.negate": "true"},
        {
            "transforms": "a",
            "transforms.a.type": f"{PACKAGE}Filter",
            "transforms.a.negate": "maybe",
            "transforms.a.predicate": "p",
        },
        {"transforms": "a"},
        {"predicates": "p"},
        {"transforms": "a", "transforms.a.type": "NoSuch"},
        {
            "predicates": "p,q",
            "predicates.p.type": "HasHeaderKey",
            "predicates.q.type": f"{PACKAGE}predicates.RecordIsTombstone",
        },
        {
            "transforms": "a",
            "transforms.a.type": f"{PACKAGE}MaskField$Key",
            "transforms.a.fields": "",
            "transforms.a.replacement": "",
        },
        {
            "transforms": "a",
            "transforms.a.type": f"{PACKAGE}TimestampConverter$Value",
            "transforms.a.target.type": "day",
            "transforms.a.unix.precision": "x",
            "transforms.a.replace.null.with.default": "y",
        },
        {
            "transforms": "a",
            "transforms.a.type": f"{PACKAGE}ExtractField$Key",
            "transforms.a.field.syntax.version": "V9",
        },
        {"transforms": "a", "transforms.a.type": f"{PACKAGE}InsertField$Value", "transforms.a.unknown": "x"},
    ]
    chains += [
        {"transforms": "a", "transforms.a.type": PACKAGE + name}
        for name in (*(f"{two}$Value" for two in TWO_SIDED), *WHOLE)
    ]
    return [{"kind": "validate", "config": {**common, **chain}} for chain in chains]


def cases() -> list[dict[str, Any]]:
    """Return every input."""
    return [
        *config_defs(),
        *validations(),
        *cast_cases(),
        *field_cases(),
        *insert_cases(),
        *mask_cases(),
        *routing_cases(),
        *timestamp_cases(),
        *key_cases(),
    ]
