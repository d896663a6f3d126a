"""Which settings the session gets; where the package is found by processes that are not the driver."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from spark_connect_rt.engine.startup.session_conf import engine_conf, executor_python_path, session_conf

CLUSTER = "spark://master:7077"


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    path = tmp_path / "spark_connect_rt-0.1.0-py3-none-any.whl"
    path.write_bytes(b"PK")
    return path


def test_a_shipped_wheel_is_in_an_executors_working_directory_and_whole_for_planners(wheel: Path) -> None:
    assert executor_python_path(CLUSTER, [str(wheel), "/pyspark.zip"], None) == f"{wheel.name}{os.pathsep}{wheel}"


def test_the_users_own_path_of_executors_comes_first(wheel: Path) -> None:
    found = executor_python_path(CLUSTER, [str(wheel)], "/opt/ours")
    assert found == os.pathsep.join(["/opt/ours", wheel.name, str(wheel)])


@pytest.mark.parametrize("given", [None, "/opt/ours"])
def test_remote_executors_have_their_own_installed_package(tmp_path: Path, given: str | None) -> None:
    assert executor_python_path(CLUSTER, [str(tmp_path)], given) == given


@pytest.mark.parametrize("master", ["local[64]", "local-cluster[2,1,1024]"])
def test_on_one_machine_executors_have_the_drivers_path(wheel: Path, master: str) -> None:
    assert executor_python_path(master, [str(wheel), "/a"], None) == f"{wheel}{os.pathsep}/a"
    assert executor_python_path(master, [str(wheel)], "/opt/ours") == "/opt/ours"


def test_speculation_is_never_on_whatever_the_user_asks_for() -> None:
    assert session_conf({"spark.speculation": "true"})["spark.speculation"] == "false"


@pytest.mark.parametrize(
    ("version", "said"), [("4.0.5", None), ("4.1.4", "true"), ("4.2.1", "true"), ("4.3.0", "true")]
)
def test_unix_domain_sockets_are_asked_for_where_spark_has_them(version: str, said: str | None) -> None:
    assert engine_conf(version=version).get("spark.python.unix.domain.socket.enabled") == said


@pytest.mark.parametrize("deploy_mode", ["client", "cluster"])
def test_python_processes_on_yarn_use_tcp_because_container_paths_are_too_long(deploy_mode: str) -> None:
    yarn = {"spark.master": "yarn", "spark.submit.deployMode": deploy_mode}
    sockets = "spark.python.unix.domain.socket.enabled"
    assert session_conf(yarn)[sockets] == "false"
    assert session_conf({**yarn, sockets: "true"})[sockets] == "false"
    assert session_conf({**yarn, "spark.python.unix.domain.socket.dir": "/run/connect"})[sockets] == "true"
    assert session_conf({"spark.master": CLUSTER})[sockets] == "true"


def test_local_spark_has_few_message_threads_unless_the_user_sets_more() -> None:
    threads = "spark.rpc.netty.dispatcher.numThreads"
    assert session_conf({})[threads] == "4"
    assert session_conf({threads: "9"})[threads] == "9"
    assert threads not in session_conf({"spark.master": "spark://host:7077"})
