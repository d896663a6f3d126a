"""Of the same connect-mirror-maker.properties, ours makes the flows, workers and connectors that Java makes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from spark_connect_rt.config.secrets import resolve
from spark_connect_rt.connectors.mirror.maker_config import CONNECTORS, MirrorMakerConfig, SourceAndTarget
from tests.parity.cases_of_mirror_maker import CASES, ENVIRONMENT
from tests.parity.golden.recordings import recording

JAVA = recording("mirror-maker")["files"]


def resolved(config: Mapping[str, str]) -> Mapping[str, str]:
    return resolve(config, lambda *_: ENVIRONMENT) if "${" in str(config) else config


def made_of(config: MirrorMakerConfig, flow: SourceAndTarget) -> dict[str, Any]:
    connectors = {name: config.connector_config(flow, name) for name in CONNECTORS}
    worker = {name: value for name, value in config.worker_config(flow).items() if not name.startswith("connectrt.")}
    return {"worker": worker, "connectors": connectors}


@pytest.mark.parametrize("name", CASES)
def test_flows_workers_and_connectors_are_javas(name: str) -> None:
    config = MirrorMakerConfig(CASES[name], resolved)
    assert {str(flow): made_of(config, flow) for flow in config.flows()} == JAVA[name]
