"""Each table of ``tests/stress`` for some seconds; ``./test.sh stress`` runs them for long."""

from __future__ import annotations

import inspect
import os

import pytest

from spark_connect_rt.kafka.admin import KafkaAdmin
from tests.stress.calls import TABLES, calls_of_admin
from tests.stress.hammer import hammered

SECONDS = float(os.environ.get("CONNECTRT_STRESS_SECONDS", "3"))


@pytest.mark.parametrize("table", sorted(TABLES))
def test_calls_from_several_threads_crash_nothing(table: str) -> None:
    counts = hammered(table, SECONDS, dict(os.environ))
    slow = TABLES[table]("127.0.0.1:1").slow
    assert [name for name, count in counts.items() if not count and name not in slow] == []


def test_the_table_calls_every_public_method_of_the_admin() -> None:
    methods = {name for name, _ in inspect.getmembers(KafkaAdmin, inspect.isfunction) if not name.startswith("_")}
    assert methods == set(calls_of_admin("127.0.0.1:1").calls)
