from __future__ import annotations

from pathlib import Path

import pytest

from spark_connect_rt.embedded.maven import resolve_jars
from tests.support.java_connect import COORDINATES


@pytest.fixture(scope="session")
def file_plugin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of Kafka's own file connectors, in a ``plugin.path`` of its own."""
    folder = tmp_path_factory.mktemp("plugin-path") / "file"
    folder.mkdir()
    for jar in resolve_jars(COORDINATES):
        if jar.name.startswith("connect-file-"):
            (folder / jar.name).symlink_to(jar)
    return folder
