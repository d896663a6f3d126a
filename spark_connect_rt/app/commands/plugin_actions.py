"""What ``connectrt plugins ...`` does: on a running worker by REST (``--url``), else on this machine's folders."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

import httpx

from spark_connect_rt.app.commands.plugin_tables import settings_page, settings_table, table_of
from spark_connect_rt.app.plugin_report import import_all, plugin_report, report_lines
from spark_connect_rt.app.worker_plugins import install_directory, plugins_of
from spark_connect_rt.config.worker.plugin_install import PluginInstallSettings
from spark_connect_rt.errors import BadRequestError, ConnectError, NotFoundError
from spark_connect_rt.plugin_install.folders import PluginFolder
from spark_connect_rt.plugin_install.installer import Installer
from spark_connect_rt.plugin_install.search import search_plugins
from spark_connect_rt.ports.clock import SystemClock
from spark_connect_rt.ports.plugin_installs import WantedPlugin
from spark_connect_rt.protocol.json_text import encode_json
from spark_connect_rt.rest.config_shapes import key_info
from spark_connect_rt.rest.json_values import as_json as json_of

REQUEST_LIMIT_S = 1_800.0


def show(settings: Mapping[str, str], check: bool, url: str | None, as_json: bool) -> int:
    """List plug-ins; exit code 1: one is broken."""
    if url:
        report = _asked(url, "GET", "/admin/plugins")
    else:
        found = plugins_of(settings)
        if check:
            import_all(found)
        report = plugin_report(found)
        report["installed"] = [json_of(one) for one in _installer(settings).folder.installed()]
    if as_json:
        _write_json(report)
    else:
        _write("".join(f"{line}\n" for line in report_lines(report)))
        _write("".join(f"{line}\n" for line in _installed_lines(report.get("installed", []))))
    failed = [one for one in report.get("installed", []) if "failed" in _states(one)]
    return 1 if report["broken"] or failed else 0


def describe(settings: Mapping[str, str], name: str, version: str, url: str | None, as_json: bool) -> int:
    """Show what a plug-in can be configured with."""
    keys = _keys(settings, name, version, url)
    if as_json:
        _write_json(keys)
    else:
        settings_table(name, keys)
    return 0


def docs(settings: Mapping[str, str], name: str, version: str, url: str | None) -> int:
    """Write the same as Markdown."""
    _write(settings_page(name, _keys(settings, name, version, url)))
    return 0


def search(words: str, as_json: bool) -> int:
    """Show coordinates to install."""
    found = search_plugins(words)
    if as_json:
        _write_json(json_of(found))
    else:
        rows = [(one.coordinate, one.about) for one in found.plugins]
        table_of(f"connectors: {words}", ("coordinate", "what it is"), rows)
        _write(f"{found.origin}\n")
    return 0 if found.plugins else 1


def install(settings: Mapping[str, str], wanted: Sequence[str], url: str | None) -> int:
    """Install a plug-in. ``wanted``: source, sha512, name, version."""
    request = WantedPlugin(*wanted)
    if url:
        done = _asked(url, "POST", "/admin/plugins", json_of(request))
        where = f"on {url}; every worker of its group installs it, too"
    else:
        installer = _installer(settings)
        done = json_of(installer.install(request, f"{_user()} (command line)"))
        where = f"in {installer.folder.path}"
    _write(f"installed {done['name']} {done['version']} {where}\n")
    for title, names in (("plug-ins", done["plugins"]), ("left out, Connect has them", done["left_out"])):
        if names:
            _write(f"  {title}: {', '.join(names)}\n")
    return 0


def remove(settings: Mapping[str, str], name: str, version: str, url: str | None) -> int:
    """Remove an installed plug-in."""
    if url:
        _asked(url, "DELETE", f"/admin/plugins/{quote(name, safe='')}/{quote(version, safe='')}")
    else:
        installer = _installer(settings)
        plugin = installer.folder.find(name, version)
        if plugin is None:
            raise NotFoundError(f"no plug-in {name} {version} is installed in {installer.folder.path}")
        installer.remove(plugin, f"{_user()} (command line)")
    _write(f"removed {name} {version}\n")
    return 0


def _installer(settings: Mapping[str, str]) -> Installer:
    found = PluginInstallSettings.of(settings)
    folder = PluginFolder(install_directory(settings).absolute())
    allowed, limit_bytes = found.connectrt_plugins_allowed, found.connectrt_plugins_size_max_bytes
    return Installer(folder, allowed, limit_bytes, SystemClock().now_ms)


def _keys(settings: Mapping[str, str], name: str, version: str, url: str | None) -> list[Mapping[str, Any]]:
    """Return the settings as ``GET /connector-plugins/NAME/config`` has them."""
    if url:
        asked = f"?version={quote(version)}" if version else ""
        answer: list[Mapping[str, Any]] = _asked(url, "GET", f"/connector-plugins/{quote(name, safe='')}/config{asked}")
        return answer
    found = plugins_of(settings).class_of(f"{name}@{version}" if version else name)
    definition = getattr(found(), "config_def", None)
    if definition is None:
        raise BadRequestError(f"{name} declares no settings")
    return [json_of(key_info(one)) for one in definition()]


def _asked(url: str, method: str, path: str, body: Any = None) -> Any:
    try:
        answer = httpx.request(method, url.rstrip("/") + path, json=body, timeout=REQUEST_LIMIT_S)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise ConnectError(f"{url} cannot be asked: {error}", code="CRT-1012") from error
    if answer.status_code >= 400:
        try:
            said = answer.json()
            raise ConnectError(said["message"], code=said.get("code") or ConnectError.code)
        except (ValueError, KeyError, TypeError):
            raise ConnectError(f"{url} answers HTTP {answer.status_code}") from None
    return answer.json() if answer.content else None


def _installed_lines(installed: Sequence[Mapping[str, Any]]) -> list[str]:
    lines: list[str] = []
    for one in installed:
        lines.append(f"{'installed':17} {one['name']} {one['version']}  {one['source']}  by {one['installed_by']}")
        for worker, state in one.get("workers", {}).items():
            if state["state"] != "installed":
                lines.append(f"{'':17} {worker}: {state['state']}: {state['reason']}")
    return lines


def _states(one: Mapping[str, Any]) -> list[str]:
    return [state["state"] for state in one.get("workers", {}).values()]


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "unknown"


def _write_json(value: Any) -> None:
    _write(encode_json(json_of(value)).decode() + "\n")


def _write(text: str) -> None:
    sys.stdout.write(text)
