"""Several threads that list plug-ins at once get every description."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from spark_connect_rt.plugins import plugin_desc

TARGET = "spark_connect_rt.connectors.files.directory_source:DirectorySourceConnector"


@pytest.fixture
def switches_in_garbage_collections() -> Iterator[None]:
    """Let threads take turns within garbage collections, as they do with a callback that waits."""

    def wait(_phase: str, _info: dict[str, int]) -> None:
        time.sleep(0)

    thresholds, interval_s = gc.get_threshold(), sys.getswitchinterval()
    gc.callbacks.append(wait)
    gc.set_threshold(50)
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval_s)
    gc.set_threshold(*thresholds)
    gc.callbacks.remove(wait)


@pytest.mark.usefixtures("switches_in_garbage_collections")
def test_threads_that_describe_at_once_get_every_description() -> None:
    wanted = plugin_desc.description_of(TARGET)

    def describe(_number: int) -> str:
        plugin_desc._docstrings.cache_clear()
        return plugin_desc.description_of(TARGET)

    with ThreadPoolExecutor(4) as threads:
        found = set(threads.map(describe, range(200)))
    assert wanted
    assert found == {wanted}
