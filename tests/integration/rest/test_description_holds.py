"""Schemathesis asks every operation for what its description rules out: real application, real herder in memory.

Examples are made from the description, the same ones in every run. No answer may be of a status, type or shape that is
not declared, and none may be 5xx, but for what Java answers so as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import Case, GenerationMode, Response
from schemathesis.checks import load_all_checks
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from spark_connect_rt.app.rest.openapi import OPERATIONS
from spark_connect_rt.app.rest.rest_app import create_app
from spark_connect_rt.operations.plugin_install.routes import InstallRights
from spark_connect_rt.runtime.herder.herder_requests import CreateConnector, DeleteConnector, SetTargetState
from spark_connect_rt.testing.in_process_cluster import InProcessCluster
from spark_connect_rt.topics.config_records import TargetState
from tests.unit.rest.fake_history import KNOWN_MS
from tests.unit.rest.fake_management import EVERY_PART
from tests.unit.rest.test_plugin_installs import FakeInstalls
from tests.unit.runtime.cluster_stories import source

load_all_checks()
CHECKS = [
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    response_headers_conformance,
]
KNOWN: dict[str, Any] = {"connector": "src", "task": 0, "logger": "root", "plugin": "MemorySource", "number": 1}
INSTALLS = InstallRights(FakeInstalls(KNOWN["plugin"]), "allow")  # nothing is fetched from anywhere
LIMIT_S = 60.0
NO_RESOURCE = "HTTP 404 Not Found"
SETTINGS = settings(
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
ANY, HERE, BROKEN = "any values", "what is there", "broken values"


class Api:
    """One worker, its description, and the one connector that is always there."""

    def __init__(self, cluster: InProcessCluster) -> None:
        self.cluster = cluster
        self.herder = cluster.add_worker("w1").herder
        cluster.until_stable()
        self.schema = schemathesis.openapi.from_asgi(
            "/openapi.json", create_app(self.herder, installs=INSTALLS, management=EVERY_PART)
        )

    def tidy(self, *, stopped: bool = False) -> None:
        """Have ``src`` and nothing else, with its task or stopped."""
        for name in set(self.herder.views.list_connectors()) - {"src"}:
            self.herder.submit(DeleteConnector(name)).result(LIMIT_S)  # requests wait for the end of a rebalance
        if "src" not in self.herder.views.list_connectors():
            self.herder.submit(CreateConnector("src", source(), None)).result(LIMIT_S)
        if bool(self.herder.views.task_infos("src")) is stopped:
            target = TargetState.STOPPED if stopped else TargetState.STARTED
            self.herder.submit(SetTargetState("src", target)).result(LIMIT_S)
            self.cluster.until(lambda: bool(self.herder.views.task_infos("src")) is not stopped, LIMIT_S)


@pytest.fixture(scope="module")
def api() -> Iterator[Api]:
    with InProcessCluster() as cluster:
        yield Api(cluster)


def has_something_to_break(operation: Any) -> bool:
    return operation.body is not None or bool(operation.parameters)


CASES = [
    (method, path, values)
    for (method, path), operation in OPERATIONS.items()
    for values in (ANY, HERE, BROKEN)
    if values != BROKEN or has_something_to_break(operation)
]


@pytest.mark.parametrize(("method", "path", "values"), CASES)
def test_every_answer_is_declared(api: Api, method: str, path: str, values: str) -> None:
    operation = api.schema[path][method]
    mode = GenerationMode.NEGATIVE if values == BROKEN else GenerationMode.POSITIVE
    fixed = {name: KNOWN[name] for name in KNOWN if f"{{{name}}}" in path}
    strategy = operation.as_strategy(generation_mode=mode, path_parameters=fixed if values != ANY else None)
    statuses = set()

    @settings(SETTINGS, max_examples=12)
    @given(case=strategy)
    def ask(case: Case) -> None:
        api.tidy(stopped=values == HERE and path.endswith("/offsets"))
        if values == HERE:
            make_it_work(case)
        answer = case.call()
        statuses.add(answer.status_code)
        case.validate_response(answer, checks=[] if is_no_resource(answer) else CHECKS)
        assert answer.status_code < 500 or is_parity(answer), answer.text

    ask()
    assert statuses
    if values == HERE:
        assert statuses & OPERATIONS[method, path].answers.keys(), f"nothing succeeded: {statuses}"


def make_it_work(case: Case) -> None:
    """Give a body that names settings those of a connector that can be made, and the like."""
    path = case.operation.path
    if path == "/connectors" and case.method == "POST":
        case.body = {**case.body, "config": source()}
    elif path.endswith(("/config", "/validate")) and case.method != "GET":
        case.body = {**case.body, **source(), "name": "src"}
    elif path.endswith("/offsets") and case.method == "PATCH":
        case.body = {"offsets": [{"partition": {"task": "src-0"}, "offset": {"position": 1}}]}
    elif path.startswith("/admin/loggers/") and case.method == "PUT":
        case.body = {"level": "WARN"}
    elif path.startswith("/admin/history/") and path.endswith("/diff"):
        case.query = {"from": "1", "to": "1"}
    elif path.endswith(("/rollback", "/undo")):
        case.body = {"dry_run": True}
    elif path.endswith("/offsets/goto"):
        case.body = {"time_ms": KNOWN_MS, "dry_run": True}
    elif path.endswith("/plugins/{plugin}/config"):
        case.query = {}


def is_no_resource(answer: Response) -> bool:
    """Whether the web server found no path: an empty name, or one that a client resolves away."""
    return answer.status_code == 404 and bool(answer.json()["message"] == NO_RESOURCE)


def is_parity(answer: Response) -> bool:
    """Java answers 500 when it cannot read a body (docs/reference/differences.md)."""
    return answer.status_code == 500 and answer.json().get("code") == "CRT-1032"
