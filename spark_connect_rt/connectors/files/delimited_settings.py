"""The settings of rows in CSV and JSON-lines files, shared by every connector that reads such files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spark_connect_rt.config.config_def import ConfigDef, ConfigKey, Importance, Type
from spark_connect_rt.connectors.files.file_text import encoding_problem
from spark_connect_rt.connectors.files.row_formats import parse_types
from spark_connect_rt.errors import BadConfigError


def _types_problem(text: Any) -> str | None:
    try:
        parse_types(text or "")
    except ValueError as error:
        return str(error)
    return None


def delimiter_of(text: str) -> str:
    """Return the character that a text stands for: a tab may be written as a backslash and a t."""
    return "\t" if text == "\\t" else text


def _delimiter_problem(text: Any) -> str | None:
    character = delimiter_of(text) if isinstance(text, str) else ""
    good = len(character) == 1 and character.isascii() and character not in '"\r\n\0'
    return None if good else "must be one ASCII character, or \\t for a tab, and not a quote or a line break"


ROWS = ConfigDef(
    [
        ConfigKey(
            "schema",
            Type.STRING,
            "",
            Importance.HIGH,
            "Columns as name:type, separated by commas. Types: int8 to int64, float32, float64, boolean, string. "
            "Other CSV columns are strings. JSON lines need this setting or schema.infer.",
            _types_problem,
        ),
        ConfigKey(
            "schema.infer",
            Type.BOOLEAN,
            False,
            Importance.MEDIUM,
            "Infer the types of columns that are not in schema from the file's first rows: int64, float64, "
            "boolean, else string. Numbers with leading zeros, or with more digits than these types hold, are "
            "strings.",
        ),
        ConfigKey("header", Type.BOOLEAN, True, Importance.MEDIUM, "Whether the first CSV row holds the column names."),
        ConfigKey(
            "delimiter",
            Type.STRING,
            ",",
            Importance.MEDIUM,
            "Character between CSV columns. It can also be \\t, a tab or a space.",
            _delimiter_problem,
            trimmed=False,
        ),
        ConfigKey(
            "file.encoding",
            Type.STRING,
            "UTF-8",
            Importance.MEDIUM,
            "Encoding of the text, such as ISO-8859-1, windows-1252 or UTF-16LE. A byte order mark in the file "
            "overrides it. Not used for Parquet.",
            encoding_problem,
        ),
        ConfigKey(
            "null.values",
            Type.LIST,
            "",
            Importance.MEDIUM,
            "Words that mean null in CSV, in addition to an empty field. A quoted word is never null.",
        ),
        ConfigKey(
            "key.field", Type.STRING, None, Importance.LOW, "Column whose text is the record's key. Not set: no key."
        ),
    ]
)


def checked_rows(definition: ConfigDef, config: Mapping[str, str]) -> dict[str, Any]:
    """Return the typed settings of ``definition``, which has those of ROWS; ``columns`` is the schema's.

    Raises BadConfigError.
    """
    values = definition.parse(config)
    values["delimiter"] = delimiter_of(values["delimiter"])
    values["columns"] = parse_types(values["schema"])
    values["format"] = values["format"].lower()
    named = bool(values["columns"])
    known = {
        "parquet": True,
        "csv": values["header"] or named,
        "jsonl": named or values["schema.infer"],
    }
    if not known[values["format"]]:
        raise BadConfigError({"schema": ["must list the columns of JSON lines, and of CSV without a header"]})
    return values


def row_problems(definition: ConfigDef, config: Mapping[str, str]) -> dict[str, list[str]]:
    """Return problems of settings that contradict each other.

    A problem of a single setting is reported with that setting.
    """
    if any(value.errors for value in definition.validate(config)):
        return {}
    try:
        checked_rows(definition, config)
    except BadConfigError as error:
        return {name: list(why) for name, why in error.problems.items()}
    return {}
