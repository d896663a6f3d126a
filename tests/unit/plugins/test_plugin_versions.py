"""Where ``*.plugin.version`` reaches the look-up of a plug-in (KIP-891)."""

from __future__ import annotations

from typing import Any

import pytest

from spark_connect_rt.api.transformation import Transformation
from spark_connect_rt.errors import NotFoundError
from spark_connect_rt.records.converters.primitive_converters import SimpleHeaderConverter, StringConverter
from spark_connect_rt.records.pipeline.connector_converters import ConnectorConverters
from spark_connect_rt.records.pipeline.transformation_chain import TransformationChain
from spark_connect_rt.runtime.worker.launches import new_connector
from spark_connect_rt.testing.memory_connectors import MemorySource


class Asked:
    """A catalogue that remembers the names it was asked for."""

    def __init__(self, **classes: type[Any]) -> None:
        self._classes = classes
        self.names: list[str] = []

    def class_of(self, name: str) -> type[Any]:
        self.names.append(name)
        found = self._classes.get(name.partition("@")[0])
        if found is None:
            raise NotFoundError(name)
        return found

    def find(self, name: str) -> Any:
        raise NotImplementedError

    def list(self, connectors_only: bool) -> Any:
        raise NotImplementedError


class Unchanged(Transformation):
    """Hands records on; refuses settings it does not know."""

    def configure(self, config: Any) -> None:
        assert not config

    def apply(self, record: Any) -> Any:
        return record


def test_a_connector_s_version_is_looked_up() -> None:
    asked = Asked(MemorySource=MemorySource)
    new_connector(asked, {"connector.class": "MemorySource", "connector.plugin.version": " [1.0,2.0) "})
    new_connector(asked, {"connector.class": "MemorySource"})
    assert asked.names == ["MemorySource@[1.0,2.0)", "MemorySource"]


def test_a_converter_s_version_comes_from_where_its_class_does() -> None:
    asked = Asked(StringConverter=StringConverter, SimpleHeaderConverter=SimpleHeaderConverter)
    connector = {"value.converter": "StringConverter", "value.converter.plugin.version": "2"}
    worker = {
        "key.converter": "StringConverter",
        "key.converter.plugin.version": "1",
        "value.converter.plugin.version": "7",
        "header.converter": "SimpleHeaderConverter",
    }
    ConnectorConverters.from_config(connector, worker, asked.class_of)
    assert asked.names == ["StringConverter@1", "StringConverter@2", "SimpleHeaderConverter"]


def test_a_transformations_version_is_looked_up_and_is_not_its_setting() -> None:
    asked = Asked(Unchanged=Unchanged)
    config = {"transforms": "a", "transforms.a.type": "Unchanged", "transforms.a.plugin.version": "latest"}
    chain: TransformationChain[Any] = TransformationChain.from_config(config, asked.class_of)
    assert asked.names == ["Unchanged@latest"]
    assert len(chain.steps) == 1


def test_an_unknown_one_is_not_found() -> None:
    with pytest.raises(NotFoundError):
        new_connector(Asked(), {"connector.class": "X"})
