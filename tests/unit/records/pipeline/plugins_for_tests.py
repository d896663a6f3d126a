"""Plug-ins and a finder for the pipeline's tests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from spark_connect_rt.api.predicate import Predicate
from spark_connect_rt.api.records import Header
from spark_connect_rt.api.transformation import Transformation
from spark_connect_rt.errors import BadConfigError, DataError, NotFoundError, RetriableError
from spark_connect_rt.records.converters.json import JsonConverter
from spark_connect_rt.records.converters.primitive_converters import (
    ByteArrayConverter,
    SimpleHeaderConverter,
    StringConverter,
)


class Upper(Transformation):
    """Upper-cases text; drops ``drop``, fails on ``bad``, retriable on ``later`` until asked often enough."""

    later = 0

    def configure(self, config: Mapping[str, str]) -> None:
        self.suffix = config.get("suffix", "")
        if self.suffix == "forbidden":
            raise BadConfigError({"suffix": ["is forbidden"]})

    def apply(self, record: Any) -> Any:
        if record.value == "drop":
            return None
        if record.value == "bad":
            raise ValueError("cannot upper-case bad")
        if record.value == "data":
            raise DataError("no such data")
        if record.value == "later" and Upper.later > 0:
            Upper.later -= 1
            raise RetriableError("not yet")
        return replace(record, value=record.value.upper() + self.suffix, headers=(Header("was", record.value),))


class IsShort(Predicate):
    def test(self, record: Any) -> bool:
        return len(record.value) < 3


class NoPlugin:
    pass


CLASSES: dict[str, type[Any]] = {
    "StringConverter": StringConverter,
    "JsonConverter": JsonConverter,
    "ByteArrayConverter": ByteArrayConverter,
    "org.apache.kafka.connect.storage.SimpleHeaderConverter": SimpleHeaderConverter,
    "Upper": Upper,
    "IsShort": IsShort,
    "NoPlugin": NoPlugin,
}
WORKER = {
    "key.converter": "StringConverter",
    "value.converter": "JsonConverter",
    "value.converter.schemas.enable": "false",
}


def find(name: str) -> type[Any]:
    if name not in CLASSES:
        raise NotFoundError(f"no plug-in is called {name}")
    return CLASSES[name]
