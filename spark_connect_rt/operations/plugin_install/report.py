"""The report on a worker's plug-ins, for ``GET /admin/plugins`` and ``connectrt plugins``."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from typing import Any

from spark_connect_rt.config.connectrt_config import PluginSettings
from spark_connect_rt.config.worker_config import RestSettings, parse_listeners
from spark_connect_rt.engine.java_host.jar import TEST_JARS, jars_of_tests
from spark_connect_rt.errors import BadConfigError, NotFoundError
from spark_connect_rt.plugins.java_plugins import HYBRID_FAIL
from spark_connect_rt.plugins.registry import Plugins

Report = dict[str, list[dict[str, Any]]]
LOOPBACK = ("localhost", "127.0.0.1", "::1")


def tell_broken(plugins: Plugins) -> None:
    """Search in parallel with the start, so that the log names broken plug-ins before a connector needs one.

    Of Java plug-ins that were never seen here a JVM is asked their versions, so that no request has to wait for it.
    """

    def search() -> None:
        plugins.broken()
        plugins.everything()

    threading.Thread(target=search, name="plugin-scan", daemon=True).start()


def refuse_unlisted(settings: PluginSettings, plugins: Plugins) -> None:
    """With ``plugin.discovery=hybrid_fail``, raise BadConfigError for Java plug-ins that no service file names."""
    if settings.plugin_discovery.lower() != HYBRID_FAIL:
        return
    plugins.everything(patient=True)
    unlisted = [
        f"{broken_plugin.location}: {broken_plugin.error}"
        for broken_plugin in plugins.broken()
        if HYBRID_FAIL in broken_plugin.error
    ]
    if unlisted:
        raise BadConfigError({"plugin.discovery": unlisted})


def refuse_test_jars(rest: RestSettings) -> None:
    """Raise BadConfigError when test jars, which replace Connect's classes, are set for a worker others can reach."""
    reachable = [listener for listener in rest.listeners if parse_listeners([listener])[0].host not in LOOPBACK]
    if jars_of_tests() and reachable:
        why = f"{TEST_JARS} is set, which is only for workers under test. Listen on localhost only, or unset it"
        raise BadConfigError({"listeners": [why]})


def plugin_report(plugins: Plugins) -> Report:
    """Return every plug-in by its metadata, and the broken ones as far as they are known.

    A plug-in's ``description`` is one sentence, empty where nothing is known, as of Java plug-ins.
    """
    found = [
        {
            "class": plugin.java_class,
            "type": plugin.type,
            "version": plugin.version,
            "location": plugin.location,
            "description": plugin.description,
        }
        for plugin in plugins.everything()
    ]
    broken = [
        {"name": broken_plugin.name, "location": broken_plugin.location, "error": broken_plugin.error}
        for broken_plugin in plugins.broken()
    ]
    return {"plugins": found, "broken": broken}


def import_all(plugins: Plugins) -> None:
    """Import every plug-in that is not bundled, so that ``plugin_report`` knows which of them cannot be."""
    for plugin in plugins.everything():
        if plugin.location != "bundled":
            try:
                plugins.check(plugin)
            except NotFoundError:
                continue  # remembered by the registry


def report_lines(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield the report as text, one plug-in a line, the broken ones last."""
    for plugin in report["plugins"]:
        yield f"{plugin['type']:17} {plugin['class']}  {plugin['version'] or '-'}  {plugin['location']}"
    for broken in report["broken"]:
        yield f"{'BROKEN':17} {broken['name']}  {broken['location']}: {broken['error']}"
