"""Plain spark-submit: the package comes by --py-files; on local-cluster[2,1,1024] readers and writers run elsewhere."""

from __future__ import annotations

import contextlib
import signal
from pathlib import Path

import psutil

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka, free_ports
from spark_connect_rt.engine.startup.java_home import Java
from tests.e2e.commands import until, worker_file
from tests.e2e.submitted import descendants, executors_of, killed_at_the_end, named, submitted
from tests.support.connect_rest import ConnectRest
from tests.support.orders_wheel import orders_wheel
from tests.support.worker_process import worker_properties
from tests.topics import count_records, read_values

LINES = 20_000


def test_tasks_run_on_executors_with_a_shipped_wheel(
    tmp_path: Path, broker: EmbeddedKafka, java: Java, wheel: Path, python_without_the_package: Path
) -> None:
    (port,) = free_ports(1)
    settings = worker_properties(broker.bootstrap_servers, "shipped", port)
    plugins = {"connectrt.plugins.directory": str(tmp_path / "plugins"), "connectrt.plugins.install": "allow"}
    file = worker_file(tmp_path, settings | plugins)
    lines = tmp_path / "lines.txt"
    lines.write_text("".join(f"line {number}\n" for number in range(LINES)))
    where = ["--master", "local-cluster[2,1,1024]", "--conf", "spark.executor.memory=1g"]
    log = tmp_path / "submit.log"
    environment = {"PYSPARK_PYTHON": str(python_without_the_package), "JAVA_HOME": str(java.home)}
    rest = ConnectRest(f"http://127.0.0.1:{port}")
    worker = submitted("connect_distributed.py", [file], wheel, where, environment, log)
    with contextlib.closing(rest), killed_at_the_end(worker) as driver:
        until(lambda: rest.probe("/health"), 120, "the worker is healthy", lambda: log.read_text()[-3000:])
        rest.create("shipped", {"connector.class": "FileStreamSource", "file": str(lines), "topic": "shipped"})
        until(
            lambda: count_records(broker.bootstrap_servers, "shipped") == LINES,
            120,
            "every line is in the topic",
            lambda: (rest.request("GET", "/connectors/shipped/status").json(), log.read_text()[-3000:]),
        )
        executors = executors_of(driver.pid)
        assert len(executors) == 2
        workers = [words for executor in executors for _, words in descendants(executor) if "pyspark.worker" in words]
        assert len(workers) >= 2, "a reader and a writer process below the executors"
        # Installed while the slot runs: executors fetch it from the driver, into processes that live already.
        found = rest.request("POST", "/admin/plugins", {"source": str(orders_wheel(tmp_path, "1.0"))})
        assert found.status == 201, found.body
        rest.create("orders", {"connector.class": "com.example.Orders", "topic": "shipped-orders"})
        until(
            lambda: count_records(broker.bootstrap_servers, "shipped-orders") == 1,
            120,
            "a record of the plug-in that came later",
            lambda: (rest.request("GET", "/connectors/orders/status").json(), log.read_text()[-3000:]),
        )
        (sent,) = read_values(broker.bootstrap_servers, "shipped-orders", 1)
        assert b"/connectrt-plugins-0/new-orders-1.0/" in (sent or b""), "an executor's own copy"
        rest.delete("orders")
        rest.delete("shipped")
        everything = psutil.Process(driver.pid).children(recursive=True)
        driver.send_signal(signal.SIGTERM)
        driver.wait(60)
        _, alive = psutil.wait_procs(everything, timeout=20)
        assert named(alive) == [], log.read_text()[-3000:]
