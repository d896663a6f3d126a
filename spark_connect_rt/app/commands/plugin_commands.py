"""The words ``connectrt plugins list|install|remove|describe|docs|search``, and ``connectrt plugins FILE`` as before.

What they do is app/commands/plugin_actions.py, imported when it is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer
from typer.core import TyperGroup

Act = Callable[[Path | None, Sequence[str] | None, Callable[[Mapping[str, str]], int]], object]

File = Annotated[Path | None, typer.Option("--file", "-f", help="The worker's properties file.")]
ListFile = Annotated[Path | None, typer.Argument(help="The worker's properties file.")]
Url = Annotated[str | None, typer.Option("--url", help="A running worker: it is asked, or does it with its group.")]
Override = Annotated[list[str] | None, typer.Option("--set", help="name=value, wins over the file; repeatable.")]
AsJson = Annotated[bool, typer.Option("--json", help="JSON instead of a table.")]
Check = Annotated[bool, typer.Option("--check", help="Import each one, too: this finds what metadata cannot tell.")]
Source = Annotated[str, typer.Argument(help="group:artifact:version, path or URL (.zip .tgz .jar .whl), requirement.")]
Sha512 = Annotated[str, typer.Option("--sha512", help="What the file's SHA-512 must be.")]
AsName = Annotated[str, typer.Option("--name", help="Instead of the name that the source says.")]
AsVersion = Annotated[str, typer.Option("--version", help="Instead of the version that the source says.")]
Name = Annotated[str, typer.Argument(help="As it was installed.")]
Version = Annotated[str, typer.Argument(help="As it was installed.")]
PluginName = Annotated[str, typer.Argument(help="Class name or alias of any kind of plug-in.")]
PluginVersion = Annotated[str, typer.Option("--version", help="Of the plug-in; none: the newest.")]
Words = Annotated[list[str], typer.Argument(help="What to look for: a name, a system.")]


class _OrFile(TyperGroup):
    """A group of words whose ``list`` may be left out: ``connectrt plugins worker.properties``."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        if args and args[0] not in self.commands and args[0] != "--help":
            args = ["list", *args]
        return super().parse_args(ctx, args)


def add_plugin_commands(cli: typer.Typer, act: Act) -> None:
    """Add the group of words; ``act`` reads the file, runs, turns errors into exit codes."""
    plugins = typer.Typer(
        cls=_OrFile, help="Plug-ins: listed, explained, found, installed, removed.", no_args_is_help=True
    )
    cli.add_typer(plugins, name="plugins")
    _add_reading(plugins, act)
    _add_changing(plugins, act)


def _add_reading(plugins: typer.Typer, act: Act) -> None:
    @plugins.command("list")
    def list_plugins(
        file: ListFile = None, check: Check = False, url: Url = None, as_json: AsJson = False, override: Override = None
    ) -> None:
        """List the plug-ins a worker has, and what is wrong with the broken ones (then exit code 1)."""
        act(file, override, lambda settings: actions().show(settings, check, url, as_json))

    @plugins.command()
    def describe(
        name: PluginName,
        version: PluginVersion = "",
        file: File = None,
        url: Url = None,
        as_json: AsJson = False,
        override: Override = None,
    ) -> None:
        """Show the settings of a plug-in as a table."""
        act(file, override, lambda settings: actions().describe(settings, name, version, url, as_json))

    @plugins.command()
    def docs(
        name: PluginName,
        version: PluginVersion = "",
        file: File = None,
        url: Url = None,
        override: Override = None,
    ) -> None:
        """Write the settings of a plug-in as a page of Markdown."""
        act(file, override, lambda settings: actions().docs(settings, name, version, url))

    @plugins.command()
    def search(words: Words, as_json: AsJson = False) -> None:
        """Look for connectors on Maven Central; where it cannot be asked, in a list of well-known ones."""
        act(None, None, lambda settings: actions().search(" ".join(words), as_json))


def _add_changing(plugins: typer.Typer, act: Act) -> None:
    @plugins.command()
    def install(
        source: Source,
        sha512: Sha512 = "",
        name: AsName = "",
        version: AsVersion = "",
        file: File = None,
        url: Url = None,
        override: Override = None,
    ) -> None:
        """Install a plug-in: on every worker of the group of --url, else in the folder that --file leads to."""
        act(file, override, lambda settings: actions().install(settings, (source, sha512, name, version), url))

    @plugins.command()
    def remove(name: Name, version: Version, file: File = None, url: Url = None, override: Override = None) -> None:
        """Remove an installed plug-in. With --url it is refused while a connector of the group uses it."""
        act(file, override, lambda settings: actions().remove(settings, name, version, url))


def actions() -> ModuleType:
    """Return the module that does them: its imports are not every start's."""
    from spark_connect_rt.app.commands import plugin_actions

    return plugin_actions
