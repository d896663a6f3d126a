from __future__ import annotations

from collections.abc import Iterator

import pytest

from spark_connect_rt.testing.in_process_cluster import InProcessCluster
from spark_connect_rt.testing.memory_connectors import faults
from tests.unit.operations.history.history_workers import AlteredSink, AlteredSource, HistoryWorkers
from tests.unit.rest.test_over_herders import QUICK


@pytest.fixture
def group() -> Iterator[HistoryWorkers]:
    faults.clear()
    AlteredSource.refuses = False
    plugins = {"AlteredSource": AlteredSource, "AlteredSink": AlteredSink}
    with InProcessCluster(plugins, timing=QUICK) as cluster:
        workers = HistoryWorkers(cluster, "w1", "w2")
        yield workers
        workers.close()
        faults.clear()
