"""The words ``connectrt plugins list|install|remove|describe|docs|sync-manifests|search``; without one, ``list``.

They act on the cluster that ``--url``, ``--context``, CONNECTRT_URL or the current context names, as all other words
do. With a worker's file, ``--set`` or ``--local``, and where no cluster is named, they act on this machine's folders.
Their actions are in operations/plugin_install/actions.py, imported when they are needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperGroup

from spark_connect_rt.cli.command import ContextName, session_of
from spark_connect_rt.cli.session import run, surroundings_in
from spark_connect_rt.errors import ConnectError

Act = Callable[[Path | None, Sequence[str] | None, Callable[[Mapping[str, str]], int]], object]

File = Annotated[Path | None, typer.Option("--file", "-f", help="A worker's properties file: act on this machine.")]
ListFile = Annotated[Path | None, typer.Argument(help="The worker's properties file.")]
Url = Annotated[
    str | None, typer.Option("--url", help="Addresses of workers, separated by commas; overrides the context's.")
]
Local = Annotated[bool, typer.Option("--local", help="Use this machine's folders even if there is a current context.")]
Override = Annotated[list[str] | None, typer.Option("--set", help="name=value, overrides the file; repeatable.")]
AsJson = Annotated[bool, typer.Option("--json", help="JSON instead of a table.")]
Check = Annotated[
    bool, typer.Option("--check", help="Also import each plug-in, to find problems that its metadata does not show.")
]
Source = Annotated[
    str, typer.Argument(help="group:artifact:version, path on the worker or URL (.zip .tgz .jar .whl), requirement.")
]
Sha512 = Annotated[str, typer.Option("--sha512", help="The SHA-512 checksum that the file must have.")]
AsName = Annotated[str, typer.Option("--name", help="Name to use instead of the source's.")]
AsVersion = Annotated[str, typer.Option("--version", help="Version to use instead of the source's.")]
Name = Annotated[str, typer.Argument(help="Name, as plugins list shows it.")]
Version = Annotated[str, typer.Argument(help="Version, as plugins list shows it.")]
PluginName = Annotated[str, typer.Argument(help="Class name or alias of a plug-in of any kind.")]
PluginVersion = Annotated[str, typer.Option("--version", help="Version of the plug-in; default: the newest.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Report only, and write nothing.")]
Words = Annotated[list[str], typer.Argument(help="What to search for: a name or a system.")]


REQUEST_LIMIT_S = 1_800.0  # of an install: large archives, many workers


class _OrFile(TyperGroup):
    """A group of words whose ``list`` may be left out: ``connectrt plugins worker.properties``."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        if args and args[0] not in self.commands and args[0] != "--help":
            args = ["list", *args]
        return super().parse_args(ctx, args)


class Where(NamedTuple):
    """Where a word acts, as its options say it: a cluster, or this machine."""

    context: str | None
    url: str | None
    file: Path | None
    override: Sequence[str] | None
    local: bool

    def is_here(self, environment: Mapping[str, str]) -> bool:
        """Return whether it acts on this machine. Raises BadParameter: the options name both."""
        from spark_connect_rt.cli.contexts import is_cluster_chosen

        here = bool(self.local or self.file or self.override)
        if here and (self.context or self.url):
            raise typer.BadParameter("name a cluster (--url, --context) or use this machine (a worker's file, --local)")
        try:
            return here or not is_cluster_chosen(environment, self.context, self.url)
        except ConnectError:  # the file of contexts is damaged: the session reads it again, and reports it
            return False


class _Places:
    """Finds out where a word acts, and lets it act there: a place and an exit code are all that a word knows."""

    def __init__(self, act: Act) -> None:
        self._act = act

    def carry_out(self, ctx: typer.Context, where: Where, word: Callable[[Any], int]) -> None:
        """Call ``word`` with its PluginPlace."""
        from spark_connect_rt.operations.plugin_install.actions import OnCluster, OnThisMachine

        if where.is_here(surroundings_in(ctx.obj).environment):
            self._act(where.file, where.override, lambda settings: word(OnThisMachine(settings)))
            return
        session = session_of(ctx, where.context, where.url, limit_s=REQUEST_LIMIT_S)
        if code := run(session, lambda session: word(OnCluster(session))):
            raise SystemExit(code)


def add_plugin_commands(cli: typer.Typer, act: Act) -> None:
    """Add the group of words; ``act`` reads the file, runs, turns errors into exit codes."""
    plugins = typer.Typer(
        cls=_OrFile, help="List, describe, search, install and remove plug-ins.", no_args_is_help=True
    )
    cli.add_typer(plugins, name="plugins")
    places = _Places(act)
    _add_reading(plugins, places)
    _add_changing(plugins, places)
    _add_search(plugins, act)


def _add_reading(plugins: typer.Typer, places: _Places) -> None:
    @plugins.command("list")
    def list_plugins(
        ctx: typer.Context,
        file: ListFile = None,
        check: Check = False,
        url: Url = None,
        context: ContextName = None,
        local: Local = False,
        as_json: AsJson = False,
        override: Override = None,
    ) -> None:
        """List the plug-ins of a worker. Exit code 1: some are broken; each is listed with the reason."""
        where = Where(context, url, file, override, local)
        places.carry_out(ctx, where, lambda place: actions().show(place, check, as_json))

    @plugins.command()
    def describe(
        ctx: typer.Context,
        name: PluginName,
        version: PluginVersion = "",
        file: File = None,
        url: Url = None,
        context: ContextName = None,
        local: Local = False,
        as_json: AsJson = False,
        override: Override = None,
    ) -> None:
        """Show the settings of a plug-in as a table."""
        where = Where(context, url, file, override, local)
        places.carry_out(ctx, where, lambda place: actions().describe(place, name, version, as_json))

    @plugins.command()
    def docs(
        ctx: typer.Context,
        name: PluginName,
        version: PluginVersion = "",
        file: File = None,
        url: Url = None,
        context: ContextName = None,
        local: Local = False,
        override: Override = None,
    ) -> None:
        """Write the settings of a plug-in as a page of Markdown."""
        where = Where(context, url, file, override, local)
        places.carry_out(ctx, where, lambda place: actions().docs(place, name, version))


def _add_changing(plugins: typer.Typer, places: _Places) -> None:
    @plugins.command()
    def install(
        ctx: typer.Context,
        source: Source,
        sha512: Sha512 = "",
        name: AsName = "",
        version: AsVersion = "",
        file: File = None,
        url: Url = None,
        context: ContextName = None,
        local: Local = False,
        override: Override = None,
    ) -> None:
        """Install a plug-in on every worker of a cluster, or in a folder of this machine (--file, --local)."""
        from spark_connect_rt.plugins.interfaces import WantedPlugin

        wanted = WantedPlugin(source, sha512, name, version)
        where = Where(context, url, file, override, local)
        places.carry_out(ctx, where, lambda place: actions().install(place, wanted))

    @plugins.command()
    def remove(
        ctx: typer.Context,
        name: Name,
        version: Version,
        file: File = None,
        url: Url = None,
        context: ContextName = None,
        local: Local = False,
        override: Override = None,
    ) -> None:
        """Remove an installed plug-in; from a cluster only while none of its connectors uses it."""
        where = Where(context, url, file, override, local)
        places.carry_out(ctx, where, lambda place: actions().remove(place, name, version))


def _add_search(plugins: typer.Typer, act: Act) -> None:
    @plugins.command("sync-manifests")
    def sync_manifests(file: File = None, dry_run: DryRun = False, override: Override = None) -> None:
        """Write the service files that jars in plugin.path lack, for plugin.discovery=service_load."""
        act(file, override, lambda settings: actions().sync_manifests(settings, dry_run))

    @plugins.command()
    def search(words: Words, as_json: AsJson = False) -> None:
        """Search Maven Central for connectors; without a connection, a list of well-known ones."""
        act(None, None, lambda settings: actions().search(" ".join(words), as_json))


def actions() -> ModuleType:
    """Return the module that does them: its imports are not every start's."""
    from spark_connect_rt.operations.plugin_install import actions as plugin_actions

    return plugin_actions
