"""Plug-ins of ``plugin.path`` where tasks run: in a worker's own processes, and sent to executors elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka
from spark_connect_rt.engine.driver.spark_session import build_session
from spark_connect_rt.engine.executor.hosting import load_class, load_clients
from tests.support.orders_wheel import orders_wheel
from tests.support.worker_process import SparkWorkerProcess
from tests.topics import count_records
from tests.unit.plugins.plugin_folders import dist_files, make_folder, make_wheel, stamp_plugin

CONNECTOR = """
from dep import VERSION
from spark_connect_rt.api.connector import SourceConnector
from spark_connect_rt.config.config_def import ConfigDef, ConfigKey, Importance, Type
from {name}.task import OneRecord


class {class_name}(SourceConnector):
    def config_def(self):
        return ConfigDef([ConfigKey("door.key", Type.PASSWORD, "", Importance.HIGH, "What lets in.")])

    def task_class(self):
        return OneRecord

    def task_configs(self, max_tasks):
        keys = {{"door.key": self.config.get("door.key", ""), "vault.key": self.config.get("vault.key", "")}}
        return [{{"topic": self.config["topic"], "planned.with": VERSION, **keys}}]
"""
TASK = """
from dep import VERSION
from spark_connect_rt.api.records import SourceRecord
from spark_connect_rt.api.task import SourceTask


class OneRecord(SourceTask):
    def start(self, config):
        self.config = config
        self.sent = False
        if config["door.key"]:
            raise ValueError(f"no way in with {config['door.key']} or {config['vault.key']}")

    def stop(self):
        pass

    def poll(self):
        import dep.late
        if self.sent:
            return None
        self.sent = True
        value = f"{self.config['planned.with']} {VERSION} {dep.late.NAME}"
        return [SourceRecord({"id": 1}, {"at": 1}, self.config["topic"], value=value)]
"""
ENTRY = "[spark_connect_rt.source_connectors]\ncom.example.{class_name} = {name}:{class_name}\n"


def connector_files(name: str, class_name: str, dep: str) -> dict[str, str]:
    return {
        f"{name}/__init__.py": CONNECTOR.format(name=name, class_name=class_name),
        f"{name}/task.py": TASK,
        "dep/__init__.py": f"VERSION = '{dep}'\n",
        "dep/late.py": f"NAME = 'late {dep}'\n",
    }


@pytest.mark.timeout(400)
def test_two_connectors_of_two_plugins_run_side_by_side(broker: EmbeddedKafka, tmp_path: Path) -> None:
    """One is a folder, one a wheel; each has its own version of ``dep``, in the driver and on executors."""
    plugins = tmp_path / "plugins"
    folder = connector_files("my_orders", "Orders", "dep 1")
    orders = ENTRY.format(name="my_orders", class_name="Orders")
    make_folder(plugins / "orders", dist_files("my_orders", "1.0", folder, orders))
    wheel = connector_files("my_stock", "Stock", "dep 2")
    make_wheel(plugins, "my_stock", "2.0", wheel, ENTRY.format(name="my_stock", class_name="Stock"))
    make_folder(plugins / "broken", {"nothing.py": ""})
    vault = tmp_path / "vault.properties"
    vault.write_text("key=S3CRET.value\n")
    providers = {"config.providers": "file", "config.providers.file.class": "FileConfigProvider"}
    settings = {
        "plugin.path": str(plugins),
        "connectrt.plugins.install": "allow",
        "spark.master": "local[*]",
        **providers,
    }
    worker = SparkWorkerProcess(tmp_path / "worker", broker.bootstrap_servers, "plugin-path", properties=settings)
    with worker:
        listed = worker.rest.request("GET", "/connector-plugins").json()
        ours = {plugin["class"]: plugin for plugin in listed if plugin["class"].startswith("com.example.")}
        assert ours["com.example.Orders"] == {"class": "com.example.Orders", "type": "source", "version": "1.0"}
        assert ours["com.example.Stock"]["version"] == "2.0"
        sink = {"connector.class": "FileStreamSink", "file": "out.txt", "topics": "from-orders,from-stock"}
        worker.rest.create("orders", {"connector.class": "com.example.Orders", "topic": "from-orders"})
        worker.rest.create("stock", {"connector.class": "Stock", "topic": "from-stock"})
        worker.rest.until(
            lambda: [count_records(broker.bootstrap_servers, topic) for topic in ("from-orders", "from-stock")],
            [1, 1],
            180.0,
            "records of both plug-ins in Kafka",
        )
        worker.rest.create("sink", sink)
        out = worker.directory / "out.txt"
        worker.rest.until(
            lambda: sorted(out.read_text().splitlines()) if out.exists() else [],
            ["dep 1 dep 1 late dep 1", "dep 2 dep 2 late dep 2"],
            120.0,
            "what both plug-ins sent",
        )
        (task,) = worker.rest.request("GET", "/connectors/orders/tasks").json()
        assert task["config"]["task.class"] == "my_orders.task:OneRecord"
        secrets = {"door.key": "plain-text", "vault.key": f"${{file:{vault}:key}}"}
        worker.rest.create("leaky", {"connector.class": "Stock", "topic": "nothing", **secrets})
        worker.rest.await_states("leaky", "RUNNING", ["FAILED"])
        shown = str(worker.rest.request("GET", "/connectors/leaky/status").json()) + worker.log_file.read_text()
        assert shown.count("no way in with [hidden] or [hidden]") >= 2  # in the status, and from the executor
        assert not [secret for secret in ("plain-text", "S3CRET.value") if secret in shown]
        mirror = {"connector.class": "MirrorSource", "source.cluster.alias": "a", "topic.filter.class": "my.own:Filter"}
        found = worker.rest.request("PUT", "/connector-plugins/MirrorSource/config/validate", mirror).json()
        why = [
            config["value"]["errors"] for config in found["configs"] if config["value"]["name"] == "topic.filter.class"
        ]
        assert "connectrt.plugins.modules" in str(why)  # a request names no module to import
        # Installed while the slots run, into the first folder of plugin.path; their processes see it.
        later = worker.rest.request("POST", "/admin/plugins", {"source": str(orders_wheel(tmp_path, "3.0"))})
        assert (later.status, (plugins / "new-orders-3.0").is_dir()) == (201, True)
        worker.rest.create(
            "later", {"connector.class": "com.example.Orders", "connector.plugin.version": "3.0", "topic": "from-later"}
        )
        worker.rest.until(
            lambda: count_records(broker.bootstrap_servers, "from-later"), 1, 120.0, "a record of what came later"
        )
        told = worker.rest.request("GET", "/admin/plugins").json()
        assert [(Path(plugin["location"]).name, plugin["name"]) for plugin in told["broken"]] == [("broken", "broken")]


def test_folders_are_sent_to_executors_of_a_cluster(tmp_path: Path) -> None:
    make_folder(tmp_path / "plugins" / "sent", stamp_plugin("sent_along", "1.0"))
    session: SparkSession = build_session(
        {"spark.master": "local-cluster[1,1,1024]"}, shipped=[str(tmp_path / "plugins")]
    )
    clients = f"spark_connect_rt.engine.executor_clients:executor_clients?{tmp_path / 'plugins'}"

    def on_executor(_: int) -> tuple[str, str]:
        stamp = load_clients(clients).plugin("sent_along.Stamp")
        loaded = load_class("connectrt_plugins.sent.sent_along:Stamp")
        assert loaded is stamp
        return str(stamp().apply(None)), str(__import__("sys").modules[stamp.__module__].__file__)

    try:
        ((said, file),) = session.sparkContext.parallelize([0], 1).map(on_executor).collect()
    finally:
        session.stop()
    assert said == "sent_along has 1.0"
    assert "connectrt-plugins-0/sent/" in file
    assert not file.startswith(str(tmp_path))
