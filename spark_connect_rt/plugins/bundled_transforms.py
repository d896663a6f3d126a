"""The bundled transformations and predicates by name; ``$Key`` and ``$Value`` are Java's inner classes."""

from __future__ import annotations

from spark_connect_rt.plugins.registry import PluginDesc, bundled

_PACKAGE = "spark_connect_rt.records.transforms"
_JAVA = "org.apache.kafka.connect.transforms"
_SIDES = ("Key", "Value")
_TWO_SIDED = {
    "Cast": "cast",
    "ExtractField": "extract_field",
    "Flatten": "flatten",
    "HeaderFrom": "header_from",
    "HoistField": "hoist_field",
    "InsertField": "insert_field",
    "MaskField": "mask_field",
    "ReplaceField": "replace_field",
    "SetSchemaMetadata": "set_schema_metadata",
    "TimestampConverter": "timestamp_converter",
}
_WHOLE = {
    "DropHeaders": "headers",
    "Filter": "filter",
    "InsertHeader": "headers",
    "RegexRouter": "routers",
    "TimestampRouter": "routers",
    "ValueToKey": "value_to_key",
}
_PREDICATES = ("HasHeaderKey", "RecordIsTombstone", "TopicNameMatches")

TRANSFORMATIONS: tuple[PluginDesc, ...] = (
    *(
        bundled(f"{_PACKAGE}.{module}:{name}{side}", "transformation", f"{_JAVA}.{name}${side}")
        for name, module in _TWO_SIDED.items()
        for side in _SIDES
    ),
    *(bundled(f"{_PACKAGE}.{module}:{name}", "transformation", f"{_JAVA}.{name}") for name, module in _WHOLE.items()),
)
PREDICATES: tuple[PluginDesc, ...] = tuple(
    bundled(f"{_PACKAGE}.predicates:{name}", "predicate", f"{_JAVA}.predicates.{name}") for name in _PREDICATES
)
