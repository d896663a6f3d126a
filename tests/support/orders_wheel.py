"""A wheel with one source connector, as pip installs it: ``com.example.Orders`` sends its version and its own place."""

from __future__ import annotations

import zipfile
from pathlib import Path

ORDERS = """
from spark_connect_rt.api.connector import SourceConnector
from spark_connect_rt.api.records import SourceRecord
from spark_connect_rt.api.task import SourceTask
from spark_connect_rt.config.config_def import ConfigDef, ConfigKey, Importance, Type


class OneRecord(SourceTask):
    def start(self, config):
        self.topic, self.sent = config["topic"], False

    def stop(self):
        pass

    def poll(self):
        if self.sent:
            return None
        self.sent = True
        return [SourceRecord({{"id": 1}}, {{"at": 1}}, self.topic, value="{version} " + __file__)]


class Orders(SourceConnector):
    def version(self):
        return "{version}"

    def config_def(self):
        return ConfigDef([ConfigKey("topic", Type.STRING, "orders", Importance.HIGH, "Where orders {version} go.")])

    def task_class(self):
        return OneRecord

    def task_configs(self, max_tasks):
        return [{{"topic": self.config["topic"]}}]
"""


def orders_wheel(folder: Path, version: str) -> Path:
    """Make a wheel that pip installs, with one source connector."""
    path, info = folder / f"new_orders-{version}-py3-none-any.whl", f"new_orders-{version}.dist-info"
    files = {
        "new_orders/__init__.py": ORDERS.format(version=version),
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: new_orders\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": "[spark_connect_rt.source_connectors]\ncom.example.Orders = new_orders:Orders\n",
    }
    record = "".join(f"{name},,\n" for name in files) + f"{info}/RECORD,,\n"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in {**files, f"{info}/RECORD": record}.items():
            archive.writestr(name, text)
    return path
