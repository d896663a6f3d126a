"""Java converters in a preview: none of them is to register a schema."""

from __future__ import annotations

import pytest

from spark_connect_rt.engine.java_host.stages.converters import JavaConverter


@pytest.mark.parametrize(
    ("java_class", "told"),
    [("io.confluent.connect.avro.AvroConverter", "false"), ("org.apache.kafka.connect.json.JsonConverter", None)],
)
def test_a_previewed_converter_does_not_register_schemas(java_class: str, told: str | None) -> None:
    class Made(JavaConverter):
        """One plug-in."""

    Made.java_class = java_class
    converter = Made()
    converter.configure({"schema.registry.url": "http://r", "auto.register.schemas": "true"}, is_key=False)
    converter.leave_nothing_behind()
    assert converter.config["auto.register.schemas"] == (told or "true")
    assert converter.config["schema.registry.url"] == "http://r"
