"""The jars both sides have on their ``plugin.path``."""

from __future__ import annotations

from pathlib import Path

from tests.support.java_plugins import DEBEZIUM_JDBC, DEBEZIUM_POSTGRES, FILES, plugin_folder

IN_JAVA = {"connectrt.runtime": "java"}
"""For connectors whose name exists in Python, too; Java Connect passes over it."""


def plugin_settings(plugin_path: Path) -> dict[str, str]:
    """Make the plug-in folders; return what a worker's file says of them."""
    for name, coordinate in (("file", FILES), ("postgres", DEBEZIUM_POSTGRES), ("jdbc", DEBEZIUM_JDBC)):
        plugin_folder(plugin_path, name, coordinate)
    return {"plugin.path": str(plugin_path), "plugin.discovery": "service_load"}
