"""A registry for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from spark_connect_rt.records.registry.registry_client import registry_client
from tests.support.schema_registry import SchemaRegistry


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    with SchemaRegistry() as running:
        yield running
    registry_client.cache_clear()
