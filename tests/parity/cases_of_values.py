# ruff: noqa: E501 - one line a group of inputs
"""Inputs for Java ``Values``, ``SchemaProjector``, ``ConnectSchema`` and ``SimpleDateFormat``."""

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

TEXTS = [
    "", " ", "  \t", "null", " null ", "null ", "nullx", "NULL", "true", "false", " true", "TRUE", "True", "truex",
    "0", "-0", "+0", "1", "127", "128", "-128", "-129", "32767", "32768", "-32768", "-32769", "2147483647",
    "2147483648", "-2147483648", "-2147483649", "9223372036854775807", "9223372036854775808",
    "-9223372036854775808", "-9223372036854775809", "10000000000000000000", "10000000000000000001",
    "99999999999999999999", "1.0", "1.5", "-1.5", "+1.5", "0.0", "0.1", "0.10", "-0.0", "1.", ".5", "-.5", "+.5", "5.",
    "1e3", "1E3", "1e-3", "1.5e3", "1e10", "1e18", "1e19", "1e20", "1e38", "1e39", "1e308", "1e309", "1.5e309", "1e400",
    "3.4028235e38", "3.4028236e38", "16777217.0", "16777217.5", "123456.789", "0.1234567890123456789", "1e-50",
    "1.401298464324817E-45", "1e99999999999", "1_000", "1,000", "0x10", "1f", "1L",
    "+", "-", "+-1", "--1", "1 2", " 12 ", "12\n", "\u0661\u0662", "NaN", "Infinity", "+Infinity", "-Inf", "+nan",
    "plain", "plain text", " padded ", "with \"quotes\"", "\"quoted\"", "\"12\"", "'single'", "a,b", "a:b", "back\\slash",
    "\\", "\\\"", "\u00e9\u4e2d\U0001f600", "tab\there",
    "2020-01-02", "2020-13-45", "2020-1-02", "2020-1-1xx", "2020-02-30", "1969-12-31", "0101-01-01", "9999-12-31",
    "1500-03-01", "1582-10-10", "20200102xx", "2020/01/02", " 2020-01-02 ", "2020-01-021", "-020-01-02", "abcd-01-02",
    "12:34:56.789Z", "00:00:00.000Z", "23:59:59.999Z", "12:34:56.789", "12:34:56.789z", "1:34:56.789Z", "12:34:56Z",
    "2020-01-02T03:04:05.678Z", "2020-01-02T03:04:05.678z", "2020-01-02T03:04:05Z", "1969-12-31T23:59:59.999Z",
    "2020-01-02T25:61:61.678Z", "2020-01-02T03:04:05.678+01:00", "2020-01-02 03:04:05.678Z", "2019-08-23T14:34:54.346Z",
    "12\\:34\\:56.789Z", "2020-01-02T03\\:04\\:05.678Z", "\"2020-01-02\"", "[2020-01-02]", "[\"2020-01-02\"]",
    "[12:34:56.789Z]", "[2020-01-02T03:04:05.678Z, 2021-01-02T03:04:05.678Z]", "[2020-01-02, 2020-01-02T03:04:05.678Z]",
    "{2020-01-02:1}", "{\"a\":2020-01-02T03:04:05.678Z}", "{\"a\":\"12:34:56.789Z\"}",
    "[]", "[ ]", "[1]", "[1,2]", "[1, 2, 3]", "[ 1 , 2 ]", "[1,2,]", "[,1]", "[1,,2]", "[1 2]", "[1", "1]", "[1,", "[",
    "]", "[1,300]", "[300,1]", "[1,70000,300]", "[1,2.5]", "[2.5,1]", "[1,1e300]", "[1.5,1e300]", "[9223372036854775807,1.5]",
    "[true]", "[true,false]", "[true,1]", "[1,true]", "[\"a\"]", "[\"a\",\"b\"]", "[\"a\",1]", "[a]", "[a,b]", "[null]",
    "[null,null]", "[1,null]", "[null,1]", "[\"a\",null]", "[[1],[2]]", "[[1],[300]]", "[[1,2],[\"a\"]]", "[[],[1]]",
    "[[]]", "[[1]", "[{\"a\":1}]", "[{}]", "[1,[2]]", "[\"\"]", "[\"a,b\"]", "[\"a]b\"]", "[\"a\\\"b\"]", "[\"a\\\\\"]", "[12345678901234567890]",
    "[12345678901234567890,1]", "[ \"a\" ]", "[\" a \"]", "[1]x", "x[1]", " [1] ", "[1] ", "[ true , false ]",
    "{}", "{ }", "{\"a\":1}", "{\"a\":1,\"b\":2}", "{\"a\":1,\"b\":300}", "{\"a\":1,\"b\":\"x\"}", "{\"a\":null}",
    "{\"a\":1,\"b\":null}", "{1:2}", "{1:2,300:4}", "{a:1}", "{\"a\"}", "{\"a\":}", "{:1}", "{,}", "{\"a\":1,}", "{\"a\":1",
    "{\"a\":1 \"b\":2}", "{\"a\":{\"b\":1}}", "{\"a\":[1,2]}", "{\"a\":[1,\"x\"]}", "{\"a\":true}", "{null:1}", "{\"a\" : 1 , \"b\" : 2}",
    "{true:1}", "{1.5:2}", "{\"a\":1}x", "{\"k\\:ey\":1}", "{\"a\":\"b\"}", "{\"a\":1.5,\"b\":2}", "{", "}", "{}x", "{\"a\":{}}", "{\"a\":[]}",
    "{\"a\":1,\"a\":2}", "{\"foo\":12345678901234567890}", ":", ",", "\"", "\"\"", "\"a", "a\"", "1:2", "1,2", "12:34", "1:", "12[3]", "12{3}",
]  # fmt: skip

VALUES: list[tuple[Node | None, Node | None]] = [
    (None, None), (INT8, i8(5)), (INT8, i8(-128)), (INT16, i16(300)), (INT32, i32(70000)), (INT64, i64(2**47)), (None, i64(7)),
    (FLOAT32, f32("1.1")), (FLOAT32, f32("1.0E10")), (FLOAT32, f32("3.4028235E38")), (FLOAT32, f32("1.4E-45")), (FLOAT32, f32("NaN")),
    (FLOAT32, f32("1.0E-5")), (FLOAT32, f32("123456.79")), (FLOAT32, f32("-0.0")), (FLOAT64, f64("1.1")), (FLOAT64, f64("1.0E20")),
    (FLOAT64, f64("-1.5")), (FLOAT64, f64("NaN")), (FLOAT64, f64("Infinity")), (FLOAT64, f64("-Infinity")), (FLOAT64, f64("300.7")), (None, f64("0.001")),
    (FLOAT64, f64("1.0E-4")), (FLOAT64, f64("9999999.5")), (FLOAT64, f64("1.0E7")), (FLOAT64, f64("0.0")),
    (BOOLEAN, boolean(True)), (None, boolean(False)), (STRING, text("")), (STRING, text("plain")), (STRING, text("12")), (STRING, text("-1.5e3")),
    (STRING, text("300")), (STRING, text(" 12")), (STRING, text("true")), (STRING, text("2020-01-02")), (STRING, text("12:34:56.789Z")),
    (STRING, text("2020-01-02T03:04:05.678Z")), (STRING, text("[1,2]")), (STRING, text('{"a":1}')), (STRING, text('q"uo\\te')), (STRING, text("1e30")),
    (STRING, text("null")), (BYTES, data(b"")), (BYTES, data(b"\x00\xff")), (None, data(b"abc")),
    (decimal_schema(2), dec("1.50")), (decimal_schema(0), dec("12345678901234567890")), (decimal_schema(-2), dec("1E+2")), (decimal_schema(10), dec("1E-10")),
    (None, dec("3.7")), (decimal_schema(2), dec("-300.75")),
    (DATE_SCHEMA, date(0)), (DATE_SCHEMA, date(86_400_000 * 18000)), (DATE_SCHEMA, date(-86_400_000)), (TIME_SCHEMA, date(45_296_789)), (TIME_SCHEMA, date(0)),
    (TIMESTAMP_SCHEMA, date(1_577_934_245_678)), (TIMESTAMP_SCHEMA, date(86_400_000)), (TIMESTAMP_SCHEMA, date(-1)), (TIMESTAMP_SCHEMA, date(-90_000_001)),
    (TIMESTAMP_SCHEMA, date(-12_219_292_800_001)), (TIMESTAMP_SCHEMA, date(253_402_300_799_999)), (None, date(1_577_934_245_678)),
    (array_schema(INT8), array(i8(1), i8(2))), (None, array()), (None, array(text("a"), text('b"c'))), (None, array(i64(1), None, text("x"))),
    (array_schema(FLOAT32), array(f32("1.1"), f32("2.5"))), (None, array(array(boolean(True)), mapping({"k": i64(1)}))),
    (map_schema(STRING, INT32), mapping({"a": i32(1), "b": i32(2)})), (None, mapping({})), (None, mapping({"a": None})), (None, mapping({"a": data(b"x"), "b": text("y")})),
    (map_schema(STRING, array_schema(FLOAT32)), mapping({"a": array(f32("0.1"))})),
]  # fmt: skip
POINT = struct_schema({"x": INT32, "y": optional(INT32, default=i32(7)), "f": optional(FLOAT32), "s": optional(STRING)})
VALUES += [
    (POINT, struct(POINT, {"x": i32(1)})),
    (POINT, struct(POINT, {"x": i32(1), "y": i32(2), "f": f32("1.1"), "s": text('a"b')})),
]
TARGETS = (
    "Boolean", "Byte", "Short", "Integer", "Long", "Float", "Double", "String", "List", "Map", "Struct", "Time", "Date", "Timestamp",
)  # fmt: skip

PATTERNS = [
    "yyyy-MM-dd", "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'", "yyyyMMdd", "yyyyMMddHHmmss", "yyyyMMddHHmmssSSS", "yy-M-d", "y", "yyyyy", "yyy", "MMM d, yyyy", "MMMM dd yyyy", "EEE, d MMM yyyy HH:mm:ss Z",
    "EEEE", "E", "EE", "D", "DDD", "F", "w", "ww", "W", "u", "Y", "YYYY-'W'ww-u", "YY", "h:mm a", "hh 'o''clock' a, zzzz", "K:mm a, z", "k", "kk", "H", "HH", "S", "SS", "SSSS", "SSSSSS", "G", "yyyy G", "X", "XX", "XXX", "ss''SSS", "''", "'literal'", "LLL", "LLLL", "L",
    "yyyy.MM.dd G 'at' HH:mm:ss z", "yyyy-MM-dd HH:mm:ss", "MM/dd/yyyy hh:mm:ss a", "dd/MM/yy", "HHmm", "m", "s", "MM", "M", "d", "\u00e9yyyy", "yyyy\u5e74MM\u6708dd\u65e5",
    "yyyy-'", "yyyy-b", "XXXX", "yyyy-MM-dd'", "", "P", "aaa", "GGGG", "zzz", "ZZZ",
]  # fmt: skip
MOMENTS = [0, -1, 1_577_934_245_678, 951_782_400_000, 1_230_768_000_000, 1_609_459_199_999, -12_219_292_800_000, -12_219_292_800_001, -62_135_596_800_000, -62_135_769_600_001, 253_402_300_800_000, 43_200_000, 1_735_689_600_000, 1_420_070_400_000]  # fmt: skip

DATE_TEXTS: list[tuple[str, list[str]]] = [
    ("yyyy-MM-dd", ["2020-01-02", "2020-1-2", "20-1-2", "2020-13-45", "2020-00-00", "2020-01-02x", "x2020-01-02", " 2020-01-02", "2020- 01-02", "2020-01", "2020-01-", "", "-2020-01-02", "2020--1-02", "0000-01-01", "1500-02-29", "1582-10-10", "99999-01-01", "+2020-01-02", "2020-01-02T00:00"]),
    ("yyyyMMdd", ["20200102", "202001", "2020010", "202001021", "2020-01-02", "-2020102", "2020 1 2"]),
    ("yyyyMMddHHmmssSSS", ["20200102030405678", "2020010203040567", "20200102030405"]),
    ("yyyy-MM-dd HH:mm:ss", ["2020-01-02 03:04:05", "2020-01-02 24:60:60", "2020-01-02  3:4:5", "2020-01-02T03:04:05", "2020-01-02 03:04", "2020-01-02 -3:04:05"]),
    ("yyyy-MM-dd'T'HH:mm:ss.SSSX", ["2020-01-02T03:04:05.678Z", "2020-01-02T03:04:05.678+01", "2020-01-02T03:04:05.678-0130", "2020-01-02T03:04:05.6Z", "2020-01-02T03:04:05.678901Z", "2020-01-02T03:04:05.678"]),
    ("yyyy-MM-dd'T'HH:mm:ssXXX", ["2020-01-02T03:04:05Z", "2020-01-02T03:04:05+01:30", "2020-01-02T03:04:05+0130", "2020-01-02T03:04:05+24:00"]),
    ("yyyy-MM-dd HH:mm:ss Z", ["2020-01-02 03:04:05 +0100", "2020-01-02 03:04:05 -0930", "2020-01-02 03:04:05 GMT", "2020-01-02 03:04:05 GMT+1:00", "2020-01-02 03:04:05 UTC", "2020-01-02 03:04:05 PST", "2020-01-02 03:04:05 +01", "2020-01-02 03:04:05 nowhere", "2020-01-02 03:04:05 GMT+01:30"]),
    ("EEE, d MMM yyyy HH:mm:ss z", ["Thu, 2 Jan 2020 03:04:05 GMT", "thu, 2 jan 2020 03:04:05 UTC", "Fri, 2 Jan 2020 03:04:05 EST", "Thursday, 2 January 2020 03:04:05 GMT", "Foo, 2 Jan 2020 03:04:05 GMT"]),
    ("MMM d, yyyy h:mm a", ["Jan 2, 2020 3:04 PM", "January 2, 2020 12:04 am", "Jan 2, 2020 12:04 PM", "Jan 2, 2020 15:04 PM", "jan 2, 2020 3:04 pm", "Jnn 2, 2020 3:04 PM"]),
    ("dd/MM/yy", ["02/01/20", "02/01/50", "02/01/99", "2/1/2020", "02/01/5", "02/01/46", "02/01/00"]),
    ("D yyyy", ["60 2020", "366 2019", "0 2020", "1 2020"]), ("yyyy-DDD", ["2020-060", "2021-060"]), ("kk:mm", ["24:00", "01:30", "25:00"]), ("K a", ["0 PM", "11 AM", "12 PM"]), ("h", ["12", "3"]), ("HH a", ["10 PM", "22 AM"]),
    ("G yyyy", ["BC 0044", "AD 0044", "ad 2020"]), ("HHmm", ["0304", "304", "03045"]), ("ss.SS", ["05.12", "05.1234"]), ("yyyy'T'MM", ["2020T05", "2020t05"]), ("yyyy MM", ["2020  05", "2020\t05"]), ("MMMM", ["may", "December", "Dec", "13"]), ("M", ["may", "5"]), ("yyyy", ["2020", "abc", "20", "020"]), ("yy", ["2020", "20", "020"]), ("y-M", ["20-1", "2020-12"]),
]  # fmt: skip

ZONES = [  # whole offsets and halves of them, behind each letter that reads a zone
    "GMT", "gmt", "GMT+2", "GMT+02", "GMT+0200", "GMT+2:00", "GMT+02:00", "GMT-2:30", "GMT+2:0", "GMT+2:", "GMT+", "GMT-", "GMT+x", "GMT+23:59", "GMT+24:00", "GMT+2:60", "GMT+002:00",
    "GMT 2", "GMTX", "GM", "+2", "+02", "+020", "+0200", "+02:00", "+2:00", "-0000", "+2400", "+0260", "+02000", "-", "Z", "z", "UTC", "utc", "UTC+2", "UTC+02:00", "UT", "EST", "PDT", "PST8", "+-200", "2",
]  # fmt: skip
DATE_TEXTS += [
    (f"HH {zone}", [f"07 {zone_name}" for zone_name in ZONES] + ["07", "07 "])
    for zone in ("z", "Z", "X", "XX", "XXX", "zzzz")
]
DATE_TEXTS += [
    ("HHZss", ["07+020005", "07GMT+2:0005", "07GMT05", "07GMT+205"]), ("ssSSSSSS", ["05123456", "05000001", "051"]), ("yyyyMMddHHmmssSSS", ["20200102030405678", "2020010203040567", "202001020304056789"]),
    ("yyyy-MM-dd", ["2020-1-2", "2020-02-30", "-2020-01-02", "2020--1-02", "2020-01-02x", " 2020-01-02", "2020 -01-02", "2020- 01-02", "12020-01-02", "2020-00-00", ""]), ("HH:mm:ss.SSS", ["03:04:05.6", "03:04:05.6789", "03:04:05.", "03:04:05,678", "3:4:5.678", "25:61:61.678"]),
    ("yyyy-MM-dd HH:mm:ss.SSSSSS", ["2020-01-02 03:04:05.123456", "2020-01-02 03:04:05.000001", "2020-01-02 03:04:05.1"]), ("''yy''", ["'20'", "20"]), ("h a", ["0 am", "13 PM", "12 p", "7 A.M."]), ("EEEE d", ["Thursday 2", "Thu 2", "Thurs 2"]),
]  # fmt: skip

PROJECTIONS: list[tuple[Node, Node | None, Node]] = [
    (INT8, i8(5), INT64), (INT8, i8(5), FLOAT32), (INT64, i64(5), INT8), (INT32, i32(16_777_217), FLOAT32), (FLOAT32, f32("1.1"), FLOAT64), (FLOAT64, f64("1.1"), FLOAT32), (STRING, text("a"), STRING), (STRING, text("a"), INT8),
    (optional(STRING), None, STRING), (optional(STRING), None, {**STRING, "default": text("d")}), (optional(STRING), text("v"), {**STRING, "default": text("d")}), (optional(STRING), None, optional(STRING)), (STRING, text("a"), optional(STRING)), (BOOLEAN, boolean(True), BOOLEAN), (BYTES, data(b"x"), BYTES),
    (schema("INT8", name="a"), i8(1), schema("INT8", name="b")), (schema("INT8", parameters={"a": "1"}), i8(1), schema("INT8")), (DATE_SCHEMA, date(86_400_000), DATE_SCHEMA), (decimal_schema(2), dec("1.50"), decimal_schema(2)), (decimal_schema(2), dec("1.50"), decimal_schema(3)),
    (array_schema(INT8), array(i8(1), i8(2)), array_schema(INT32)), (array_schema(INT8), array(i8(1)), array_schema(STRING)), (map_schema(STRING, INT8), mapping({"a": i8(1)}), map_schema(STRING, FLOAT64)),
]  # fmt: skip
OLD = struct_schema({"a": INT32, "b": optional(STRING)})
NEW = struct_schema({"a": INT64, "c": optional(STRING), "d": {**INT32, "default": i32(9)}})
NARROW = struct_schema({"a": INT8})
MISSING = struct_schema({"a": INT32, "z": INT32})
NESTED_OLD, NESTED_NEW = struct_schema({"n": OLD}), struct_schema({"n": NEW})
for target in (NEW, NARROW, MISSING, OLD, struct_schema({"b": optional(STRING)})):
    PROJECTIONS.append((OLD, struct(OLD, {"a": i32(1), "b": text("x")}), target))
PROJECTIONS.append((NESTED_OLD, struct(NESTED_OLD, {"n": struct(OLD, {"a": i32(1)})}), NESTED_NEW))
PROJECTIONS.append(
    (
        NESTED_OLD,
        struct(NESTED_OLD, {"n": struct(OLD, {"a": i32(1)})}),
        struct_schema({"n": struct_schema({"a": INT8})}),
    )
)

CHECKS: list[tuple[Node, Node | None]] = [
    (INT8, i8(1)), (INT8, None), (optional(INT8), None), ({**INT8, "default": i8(1)}, None), (INT8, text("a")), (INT8, boolean(True)), (STRING, i64(1)), (BOOLEAN, text("true")), (BYTES, text("a")), (FLOAT64, text("1")), (STRING, data(b"a")),
    (array_schema(INT8), array(i8(1), None)), (array_schema(INT8), array(text("a"))), (array_schema(INT8), text("a")), (map_schema(STRING, INT8), mapping({"a": None})), (map_schema(STRING, INT8), mapping({"a": text("b")})), (map_schema(INT8, INT8), mapping({"a": i8(1)})),
    (DATE_SCHEMA, text("2020-01-01")), (DATE_SCHEMA, date(0)), (decimal_schema(2), text("1.50")), (decimal_schema(2), dec("1.5")), (schema("INT8", name="named"), text("a")), (array_schema(optional(INT8)), array(None)), (schema("ARRAY"), array(i8(1))), (schema("MAP"), mapping({"a": i8(1)})),
    (POINT, struct(POINT, {"x": i32(1)})), (POINT, struct(POINT, {})), (POINT, struct(OLD, {"a": i32(1)})), (POINT, text("a")), (array_schema(POINT), array(struct(POINT, {}))),
]  # fmt: skip


def cases() -> list[dict[str, Any]]:
    """Return every input."""
    found: list[dict[str, Any]] = [{"kind": "parse", "text": sample} for sample in TEXTS]
    for of, value in VALUES:
        found.append({"kind": "text", "schema": of, "value": value})
        found.append({"kind": "infer", "value": value})
        found += [{"kind": "convert", "to": to, "schema": of, "value": value} for to in TARGETS]
        found.append({"kind": "convert", "to": "Decimal", "schema": of, "value": value, "scale": 2})
    found += [{"kind": "project", "source": a, "value": value, "target": b} for a, value, b in PROJECTIONS]
    found += [{"kind": "check", "schema": of, "value": value} for of, value in CHECKS]
    for pattern in PATTERNS:
        moments = MOMENTS if len(pattern) > 3 else MOMENTS[:9]
        found += [{"kind": "date_format", "pattern": pattern, "ms": ms} for ms in moments]
    for pattern, texts in DATE_TEXTS:
        found += [{"kind": "date_parse", "pattern": pattern, "text": sample} for sample in texts]
    return found
