"""The settings of rows in CSV and JSON-lines files, shared by every connector that reads such files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spark_connect_rt.config.config_def import ConfigDef, ConfigKey, Importance, Type
from spark_connect_rt.connectors.files.row_formats import parse_types
from spark_connect_rt.errors import BadConfigError


def _types_problem(text: Any) -> str | None:
    try:
        parse_types(text or "")
    except ValueError as error:
        return str(error)
    return None


def _delimiter_problem(text: Any) -> str | None:
    good = isinstance(text, str) and len(text) == 1 and text.isascii() and text not in '"\r\n'
    return None if good else "must be one ASCII character, no quote and no line break"


ROWS = ConfigDef(
    [
        ConfigKey(
            "schema",
            Type.STRING,
            "",
            Importance.HIGH,
            "Columns as name:type, separated by commas; types int8 to int64, float32, float64, boolean, string. "
            "CSV columns it leaves out are strings. JSON lines need it, or schema.infer.",
            _types_problem,
        ),
        ConfigKey(
            "schema.infer",
            Type.BOOLEAN,
            False,
            Importance.MEDIUM,
            "Tell the types of columns that schema leaves out from the file's first rows: int64, float64, boolean, "
            "else string.",
        ),
        ConfigKey("header", Type.BOOLEAN, True, Importance.MEDIUM, "The first CSV row holds the column names."),
        ConfigKey(
            "delimiter", Type.STRING, ",", Importance.MEDIUM, "Character between CSV columns.", _delimiter_problem
        ),
        ConfigKey(
            "null.values",
            Type.LIST,
            "",
            Importance.MEDIUM,
            "Words that mean null in CSV, besides nothing at all; a quoted word is never null.",
        ),
        ConfigKey(
            "key.field", Type.STRING, None, Importance.LOW, "Column whose text is the record's key; not set: no key."
        ),
    ]
)


def checked_rows(definition: ConfigDef, config: Mapping[str, str]) -> dict[str, Any]:
    """Return the typed settings of ``definition``, which has those of ROWS; ``columns`` is the schema's.

    Raises BadConfigError.
    """
    # A tab is a delimiter that trimming would eat.
    delimiter = {"\\t": "\t"}.get(config.get("delimiter", ","), config.get("delimiter", ","))
    values = definition.parse({**config, "delimiter": "," if delimiter in ("\t", " ") else delimiter})
    values["delimiter"] = delimiter
    values["columns"] = parse_types(values["schema"])
    values["format"] = values["format"].lower()
    named = bool(values["columns"])
    known = {
        "parquet": True,
        "csv": values["header"] or named,
        "jsonl": named or values["schema.infer"],
    }
    if not known[values["format"]]:
        raise BadConfigError({"schema": ["must name the columns of JSON lines, and of CSV without a header"]})
    return values


def row_problems(definition: ConfigDef, config: Mapping[str, str]) -> dict[str, list[str]]:
    """Return problems of settings against each other; what a single setting shows is reported by itself."""
    if any(value.errors for value in definition.validate({**config, "delimiter": ","})):
        return {}
    try:
        checked_rows(definition, config)
    except BadConfigError as error:
        return {name: list(why) for name, why in error.problems.items()}
    return {}
