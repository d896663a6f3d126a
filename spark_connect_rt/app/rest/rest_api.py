"""The REST API of one worker put together: listeners, TLS, other origins, headers, extensions (Java ``RestServer``).

From outside in: CORS, ``response.http.headers.config``, ``rest.extension.classes`` in their order, the resources.
Resources on ``admin.listeners`` have none of these around them, as in Java. The console stands inside the extensions,
or on ``admin.listeners`` where these serve /admin; then it asks the main API with the login that the browser brings.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from starlette.routing import Route, Router

from spark_connect_rt.api.rest_extension import Asgi, ClusterState, ConnectRestExtension
from spark_connect_rt.app.rest.admin_api import NOTHING, Management
from spark_connect_rt.app.rest.console_app import Console
from spark_connect_rt.app.rest.rest_app import create_admin_app, create_app
from spark_connect_rt.base.descriptor_limit import descriptor_limit
from spark_connect_rt.base.supervision import Report, report_nowhere
from spark_connect_rt.config.management_config import LOOPBACK
from spark_connect_rt.config.worker_config import (
    Listener,
    RestSettings,
    is_loopback,
    parse_header_rules,
    parse_listeners,
)
from spark_connect_rt.config.worker_settings import WorkerConfig
from spark_connect_rt.errors import BadConfigError, NotFoundError
from spark_connect_rt.group.peers import PeerClient
from spark_connect_rt.operations.plugin_install.install_token import made_token, token_file
from spark_connect_rt.operations.plugin_install.report import plugin_report
from spark_connect_rt.operations.plugin_install.routes import InstallRights
from spark_connect_rt.plugins.interfaces import PluginInstalls
from spark_connect_rt.plugins.registry import Plugins
from spark_connect_rt.rest.basic_auth import LOGIN_FILE
from spark_connect_rt.rest.listening.connections import CONNECTIONS_MAX, connections_max
from spark_connect_rt.rest.listening.free_ports import FreePorts
from spark_connect_rt.rest.middleware import CrossOrigin, ResponseHeaders
from spark_connect_rt.rest.server import RestServer, RestServers, cannot_listen
from spark_connect_rt.rest.tls import ADMIN, LISTENERS, server_tls
from spark_connect_rt.runtime.herder.herder_api import HerderApi, HerderViews

# The ``commit`` of ``GET /``: 16 hex digits, as clients parse them.
#
# In a checkout, the commit that is checked out; else a digest of the installed modules: another digest is another
# build.


_PACKAGE = Path(__file__).resolve().parents[2]


def build_commit(package: Path = _PACKAGE, root: Path = _PACKAGE.parent) -> str:
    """Return the first 16 digits of the commit, or of the digest of ``package``'s modules."""
    return commit_of_checkout(root) or _digest(package)


def commit_of_checkout(root: Path) -> str | None:
    """Return the commit of the git checkout whose top folder is ``root``; None: not a checkout, or unreadable."""
    try:
        folder = _git_folder(root / ".git")
        head = (folder / "HEAD").read_text("utf-8").strip()
        commit = _of_branch(folder, head.removeprefix("ref: ")) if head.startswith("ref: ") else head
    except OSError:
        return None
    return commit[:16] if commit and len(commit) >= 40 else None


def _git_folder(place: Path) -> Path:
    if place.is_dir():
        return place
    return place.parent / place.read_text("utf-8").strip().removeprefix("gitdir: ")  # its own work tree


def _of_branch(folder: Path, branch: str) -> str | None:
    shared = folder / "commondir"
    home = folder / shared.read_text("utf-8").strip() if shared.exists() else folder
    if (home / branch).exists():
        return (home / branch).read_text("utf-8").strip()
    lines = (home / "packed-refs").read_text("utf-8").splitlines()
    return next((line.split()[0] for line in lines if line.endswith(f" {branch}")), None)


def _digest(package: Path) -> str:
    digest = hashlib.sha256()
    for module in sorted(package.rglob("*.py")):
        digest.update(str(module.relative_to(package)).encode() + b"\0" + module.read_bytes())
    return digest.hexdigest()[:16]


log = logging.getLogger(__name__)

_JAVA_OPTION = re.compile(r"-Djava\.security\.auth\.login\.config=(\S+)")


class RestApi:
    """All listeners of a worker over one herder. Everything that can be wrong with the settings is found when made."""

    def __init__(
        self,
        config: WorkerConfig,
        herder: HerderApi,
        plugins: Plugins,
        now_ms: Callable[[], int],
        peers: PeerClient | None = None,
        environment: Mapping[str, str] = os.environ,
        report: Report = report_nowhere,
        installs: PluginInstalls | None = None,
        management: Management = NOTHING,
        ports: FreePorts | None = None,
    ) -> None:
        """Take the worker's settings; ``ports`` hold the sockets of listeners bound already. Raises BadConfigError."""
        rights = _install_rights(config, installs) if installs else None
        rest, texts = config.rest, config.resolved
        admin = rest.admin_listeners

        def broken() -> dict[str, list[dict[str, Any]]]:
            return plugin_report(plugins)

        self._extensions = _extensions(config, plugins, environment)
        app: Asgi = create_app(
            herder,
            peers,
            commit=build_commit(),
            with_admin=admin is None,
            plugins=broken,
            installs=rights,
            management=management,
        )
        self._console = Console(aside=admin is not None) if config.management.connectrt_console_enabled else None
        if self._console and admin is None:
            app = self._console.in_front_of(app)
        cluster = _Cluster(herder.views)
        for extension in reversed(self._extensions):
            app = _with_routes(extension.wrap(app, cluster), extension, cluster)
        guarded = app
        if self._console:
            self._console.asks(guarded)
        if rules := parse_header_rules(rest.response_http_headers_config):
            app = ResponseHeaders(app, rules, now_ms)
        if origins := _parts(rest.access_control_allow_origin):
            app = CrossOrigin(app, origins, _parts(rest.access_control_allow_methods))
        listeners, of_admin = parse_listeners(rest.listeners), parse_listeners(admin) if admin else []
        wanted, descriptors = config.engine.connectrt_rest_connections_max, descriptor_limit().soft
        most = connections_max(wanted, descriptors, len(listeners) + len(of_admin))
        servers = servers_of(app, listeners, texts, LISTENERS, report, most, ports)
        if of_admin:
            if rights is not None and all(is_loopback(listener.host) for listener in of_admin):
                rights = replace(rights, is_private=True)
            aside: Asgi = create_admin_app(herder, broken, rights, peers=peers, management=management)
            if self._console:
                self._console.asks(_beside(aside, guarded))
                aside = self._console.in_front_of(aside)
            servers += servers_of(aside, of_admin, texts, ADMIN, report, most, ports)
        self._servers = RestServers(servers)

    def start(self) -> None:
        """Answer on every listener. Raises StartupError (exit code 16)."""
        self._servers.start()

    def stop(self) -> None:
        """Close every listener, then the extensions. Safe to call twice."""
        if self._console:
            self._console.close()
        self._servers.stop()
        extensions, self._extensions = self._extensions, []
        for extension in extensions:
            try:
                extension.close()
            except Exception:
                log.exception("extension=%s close failed, ignored", type(extension).__name__)


class _Cluster:
    """The facts that extensions may know: port ClusterState."""

    def __init__(self, views: HerderViews) -> None:
        self._views = views

    def kafka_cluster_id(self) -> str:
        """Return the id of the Kafka cluster, empty while unknown."""
        return self._views.kafka_cluster_id()

    def list_connectors(self) -> list[str]:
        """Return every connector's name, sorted."""
        return self._views.list_connectors()

    def connector_config(self, name: str) -> Mapping[str, str]:
        """See ClusterState: as it was written, references unresolved, as in Java."""
        return self._views.connector_config(name).written()


def _install_rights(config: WorkerConfig, installs: PluginInstalls) -> InstallRights:
    """Return who may install plug-ins. Raises BadConfigError: the token's file is not this user's alone."""
    settings = config.plugin_install
    mode, configured = settings.connectrt_plugins_install, settings.connectrt_plugins_install_token_file
    if mode.lower() != LOOPBACK:
        return InstallRights(installs, mode)
    try:
        return InstallRights(installs, mode, made_token(token_file(configured)))
    except (BadConfigError, OSError) as error:
        if configured:
            raise
        log.warning("plug-ins can be installed on loopback admin.listeners only, because there is no token: %s", error)
        return InstallRights(installs, mode)


def settled_listeners(rest: RestSettings, ports: FreePorts) -> RestSettings:
    """Return the settings with the port of each listener that has port 0, bound now and kept in ``ports``.

    Raises StartupError (exit code 16), BadConfigError.
    """

    def settled(texts: Sequence[str], setting: str) -> tuple[str, ...]:
        found = []
        for listener in parse_listeners(texts):
            try:
                found.append(str(ports.settled(listener)))
            except OSError as error:
                raise cannot_listen(listener, setting, error) from error
        return tuple(found)

    admin = rest.admin_listeners
    return replace(
        rest,
        listeners=settled(rest.listeners, "listeners"),
        admin_listeners=settled(admin, "admin.listeners") if admin else admin,
    )


def servers_of(
    app: Asgi,
    listeners: Sequence[Listener],
    raw: Mapping[str, str],
    prefix: str,
    report: Report = report_nowhere,
    most: int = CONNECTIONS_MAX,
    ports: FreePorts | None = None,
) -> list[RestServer]:
    """Return a server for each listener, not started.

    Args:
        app: the application that they serve.
        listeners: where.
        raw: the worker's settings, TLS among them.
        prefix: of the TLS settings.
        report: is called for a server that ended unasked.
        most: connections that each of them may have open.
        ports: hold the sockets of those that were bound already.
    """
    tls: ssl.SSLContext | None = None
    if any(listener.scheme == "https" for listener in listeners):
        tls = server_tls(raw, prefix)
    setting = prefix.removesuffix(".https.")
    return [
        RestServer(
            app, listener.host, listener.port, tls if listener.scheme == "https" else None, setting, report, most, ports
        )
        for listener in listeners
    ]


def _beside(admin: Asgi, others: Asgi) -> Asgi:
    """Return the whole API for a console on ``admin.listeners``: /admin from there, the rest with its extensions."""

    async def either(scope: Any, receive: Any, send: Any) -> None:
        await (admin if scope["path"].startswith("/admin/") else others)(scope, receive, send)

    return either


def _extensions(config: WorkerConfig, plugins: Plugins, environment: Mapping[str, str]) -> list[ConnectRestExtension]:
    login_file = config.engine.connectrt_rest_login_config or _login_file_of_java(environment)
    made: list[ConnectRestExtension] = []
    for name in config.rest.rest_extension_classes:
        try:
            cls = plugins.class_of(name)
        except NotFoundError as error:
            raise BadConfigError({"rest.extension.classes": [str(error)]}) from error
        if not issubclass(cls, ConnectRestExtension):
            raise BadConfigError({"rest.extension.classes": [f"{name} is not a ConnectRestExtension"]})
        extension = cls()
        extension.configure({**config.resolved, LOGIN_FILE: login_file})
        made.append(extension)
    return made


def _login_file_of_java(environment: Mapping[str, str]) -> str:
    """Return the login file that the options of a Java worker name, so that its start script serves here too."""
    for name in ("KAFKA_OPTS", "JAVA_TOOL_OPTIONS"):
        if found := _JAVA_OPTION.search(environment.get(name, "")):
            return found.group(1).strip("\"'")
    return ""


def _with_routes(app: Asgi, extension: ConnectRestExtension, cluster: ClusterState) -> Asgi:
    """Return an application that serves the extension's own paths and hands everything else on."""
    own = extension.routes(cluster)
    if not own:
        return app
    return Router([Route(path, _endpoint(handler), methods=[method]) for method, path, handler in own], default=app)


def _endpoint(handler: Asgi) -> Any:
    class Endpoint:  # a class: Starlette calls it as an ASGI application, not as a function of a request
        def __init__(self, scope: Any, receive: Any, send: Any) -> None:
            self._call = (scope, receive, send)

        def __await__(self) -> Any:
            return handler(*self._call).__await__()

    return Endpoint


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
