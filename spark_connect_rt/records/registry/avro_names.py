"""Names that Avro and Connect's Avro mapping give a meaning (Java ``io.confluent.connect.avro.AvroData``)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote_plus

from spark_connect_rt.errors import DataError

NAMESPACE = "io.confluent.connect.avro"
DEFAULT_NAME = "ConnectDefault"
MAP_ENTRY = "MapEntry"
UNION = f"{NAMESPACE}.Union"
ENUM = f"{NAMESPACE}.Enum"
ANYTHING_NAME = f"{NAMESPACE}.Anything"
RECORD_DOC = f"{NAMESPACE}.record.doc"
FIELD_DOC = f"{NAMESPACE}.field.doc."
ENUM_DOC = f"{NAMESPACE}.enum.doc."
ENUM_DEFAULT = f"{NAMESPACE}.enum.default."
FIELD_DEFAULT_FLAG = f"{NAMESPACE}.field.default"
"""Parameter: the default was Avro's, so it is not said a second time as ``connect.default``."""

FIXED_SIZE, PRECISION, DEFAULT_PRECISION = "connect.fixed.size", "connect.decimal.precision", 64
KEY, VALUE = "key", "value"

_VALID = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class AvroSettings:
    """What changes the form of schemas."""

    enhanced: bool = False  # enums and fixed are kept, union members have whole names
    meta_data: bool = True  # write and read connect.*
    scrub_names: bool = False
    optional_map_keys: bool = False


def split_name(full_name: str) -> tuple[str | None, str]:
    """Return namespace (None without one) and simple name."""
    namespace, _, name = full_name.rpartition(".")
    return namespace or None, name


def scrubbed(name: str) -> str:
    """Return a name in which Avro's letters stand for the others, as Java's ``scrub.invalid.names`` writes it."""
    if _VALID.fullmatch(name) or not name:
        return name
    encoded = quote_plus(name, safe="*")
    return re.sub("[^A-Za-z0-9_]", "_", f"x{encoded}" if encoded[0].isdigit() else encoded)


def avro_name(name: str, settings: AvroSettings) -> str:
    """Return one simple name as Avro takes it. Raises DataError: it does not, and names are not scrubbed."""
    if settings.scrub_names:
        name = scrubbed(name)
    if not _VALID.fullmatch(name):
        raise DataError(f"{name!r} is not a valid name in Avro. Rename it, or set scrub.invalid.names=true")
    return name


def _optional(kind: Any) -> list[Any]:
    return ["null", kind]


_PRIMITIVES = ("boolean", "bytes", "double", "float", "int", "long", "string")
_ENTRY = {
    "type": "record",
    "name": MAP_ENTRY,
    "fields": [{"name": KEY, "type": "Anything"}, {"name": VALUE, "type": "Anything"}],
}
ANYTHING: dict[str, Any] = {
    "type": "record",
    "name": "Anything",
    "namespace": NAMESPACE,
    "fields": [
        *({"name": kind, "type": _optional(kind), "default": None} for kind in _PRIMITIVES),
        {"name": "array", "type": _optional({"type": "array", "items": "Anything"}), "default": None},
        {"name": "map", "type": _optional({"type": "array", "items": _ENTRY}), "default": None},
    ],
}
"""The schema of values without a schema: at most one of the fields is set."""
