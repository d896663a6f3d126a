"""The lock file of the embedded broker lists what Maven Central resolves to."""

from __future__ import annotations

import hashlib
from pathlib import Path

import jgo

from spark_connect_rt.base.cache import KAFKA_BROKER, KAFKA_VERSION
from spark_connect_rt.base.locked_jars import locked_jars


def test_the_lock_file_holds_what_the_brokers_coordinate_resolves_to(tmp_path: Path) -> None:
    coordinate = f"{KAFKA_BROKER}:{KAFKA_VERSION}"
    resolved = {
        jar.name: hashlib.sha256(jar.read_bytes()).hexdigest()
        for jar in Path(jgo.build(coordinate, cache_dir=tmp_path).path).glob("*/*.jar")
    }
    assert {jar.name: jar.sha256 for jar in locked_jars([coordinate])} == resolved
