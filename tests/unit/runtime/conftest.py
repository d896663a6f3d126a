from collections.abc import Iterator

import pytest

from spark_connect_rt.testing.in_process_cluster import InProcessCluster
from spark_connect_rt.testing.memory_connectors import delivered, faults


@pytest.fixture
def cluster() -> Iterator[InProcessCluster]:
    faults.clear()
    delivered.clear()
    with InProcessCluster() as running:
        yield running
        faults.clear()
