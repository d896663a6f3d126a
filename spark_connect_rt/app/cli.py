"""The ``connectrt`` command line. Thin: parses words, calls ``app``, turns errors into one line and an exit code."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from spark_connect_rt._version import CONNECT_VERSION, __version__
from spark_connect_rt.app.development.commands import add_development_commands
from spark_connect_rt.app.migrate.commands import add_migrate_commands
from spark_connect_rt.app.mirror.commands import add_mirror_commands
from spark_connect_rt.app.offline.commands import add_store_commands
from spark_connect_rt.app.settings_file import is_complete, read_settings
from spark_connect_rt.cli.context_commands import add_context_words
from spark_connect_rt.cli.logger_commands import add_logger_commands
from spark_connect_rt.cli.reading_options import add_reading_words
from spark_connect_rt.connectors.lakehouse.commands import add_table_commands
from spark_connect_rt.errors import BadConfigError, ConnectError, StartupError, explain_hint
from spark_connect_rt.operations.connectors.change_commands import add_changing_words
from spark_connect_rt.operations.connectors.inspect_commands import add_describe_command
from spark_connect_rt.operations.connectors.offset_commands import FileReset, add_offset_words
from spark_connect_rt.operations.dead_letters.commands import add_letter_words
from spark_connect_rt.operations.events.commands import add_event_commands
from spark_connect_rt.operations.history.commands import add_history_commands
from spark_connect_rt.operations.overview.commands import add_overview_command
from spark_connect_rt.operations.plugin_install.commands import add_plugin_commands
from spark_connect_rt.operations.preview.commands import add_preview_commands

# Adds the words to the command line.


def add_cluster_commands(cli: typer.Typer, offsets: typer.Typer, file_reset: FileReset) -> None:
    """Add every word that steers a cluster; ``offsets``: the group of words that is there, and its reset."""
    add_reading_words(cli)
    add_changing_words(cli)
    add_describe_command(cli)
    add_event_commands(cli)
    add_overview_command(cli)
    add_preview_commands(cli)
    add_history_commands(cli)
    add_logger_commands(cli)
    add_offset_words(offsets, file_reset)
    add_letter_words(cli)
    add_context_words(cli)


def _show_version(asked: bool) -> None:
    if asked:
        sys.stdout.write(f"connectrt {__version__} (Kafka Connect {CONNECT_VERSION})\n")
        raise typer.Exit


OTHER_WORDS = {
    "plugin": "plugins",
    "plug-in": "plugins",
    "plug-ins": "plugins",
    "offset": "offsets",
    "logger": "loggers",
    "event": "events",
    "log": "logs",
    "dead-letter": "dlq",
    "dead-letters": "dlq",
    "context": "config",
    "tables": "table",
    "contexts": "config",
}
"""Singular and plural, and other names, of the groups of words."""


class _Words(TyperGroup):
    """The nouns of the command line, in the singular and the plural."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return super().get_command(ctx, OTHER_WORDS.get(cmd_name, cmd_name))


cli = typer.Typer(name="connectrt", cls=_Words, no_args_is_help=True, pretty_exceptions_enable=False)
PropertiesFile = Annotated[Path, typer.Argument(help="Worker properties, in Java's syntax.")]
QuickstartFile = Annotated[Path | None, typer.Argument(help="Worker properties. Default: the bundled ones.")]
Version = Annotated[
    bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit.")
]
Cdc = Annotated[
    bool, typer.Option("--cdc", help="Keep an Iceberg table equal to a table of PostgreSQL, through Debezium.")
]
Delta = Annotated[bool, typer.Option("--delta", help="With --cdc: a Delta table instead.")]
Keep = Annotated[bool, typer.Option("--keep", help="Keep everything running until Ctrl-C.")]
ConnectorFiles = Annotated[
    list[Path] | None, typer.Argument(help="Connector files of a standalone worker: properties or JSON.")
]
Alone = Annotated[bool, typer.Option("--standalone", help="Run a standalone worker.")]
OfHosts = Annotated[bool, typer.Option("--java", help="Also for the JVMs of Java plug-ins. Downloads Connect's jars.")]
ErrorCode = Annotated[str, typer.Argument(help="The code of a message, such as CRT-1040.")]
OfPlugins = Annotated[
    str | None, typer.Option("--plugin-path", help="Also for the JVMs of each Java plug-in of this plugin.path.")
]
Override = Annotated[list[str] | None, typer.Option("--set", help="name=value, overrides the file; repeatable.")]


@cli.callback()
def connectrt(version: Version = False) -> None:
    """Kafka Connect's distributed runtime on Spark."""


@cli.command()
def worker(file: PropertiesFile, override: Override = None) -> None:
    """Run one distributed worker until SIGTERM or Ctrl-C."""

    def run() -> int:
        settings = _read_and_start_jvm(file, override, is_worth_it=is_complete)
        from spark_connect_rt.app.distributed import run_worker

        try:
            return run_worker(settings)
        except BadConfigError:
            if not is_complete(settings):
                sys.stderr.write(f"{file} is incomplete. connectrt new worker NAME writes a complete file.\n")
            raise

    _exit_with(run)


@cli.command()
def quickstart(
    file: QuickstartFile = None, cdc: Cdc = False, delta: Delta = False, keep: Keep = False, override: Override = None
) -> None:
    """Stream the flights into a table: embedded Kafka, one worker, two connectors, then check the counts.

    With --cdc: keep a lakehouse table equal to a table of PostgreSQL while its rows change, and compare every row.
    """
    if delta and not cdc:
        raise typer.BadParameter("needs --cdc. For the flights use --set quickstart.table.format=delta.")
    _share_memory()
    if cdc:
        from spark_connect_rt.app.quickstart.cdc.run import run_cdc_quickstart
        from spark_connect_rt.app.quickstart.quickstart import bundled_settings as bundled

        _exit_with(lambda: run_cdc_quickstart(read_settings(file or bundled(), override), delta=delta, keep=keep))
        return
    from spark_connect_rt.app.quickstart.quickstart import bundled_settings, run_quickstart

    _exit_with(lambda: run_quickstart(read_settings(file or bundled_settings(), override), keep=keep))


@cli.command("class-archive")
def class_archive(java: OfHosts = False, plugin_path: OfPlugins = None) -> None:
    """Prepare this environment: every later start of a worker costs a third less CPU. Half a minute, once."""
    from spark_connect_rt.engine.class_archive_command import make_class_archive, make_host_archives

    def make() -> int:
        sys.stdout.write(f"{make_class_archive()}\n")
        if java or plugin_path:
            for path in make_host_archives(plugin_path or ""):
                sys.stdout.write(f"{path}\n")
        return 0

    _exit_with(make)


@cli.command()
def standalone(file: PropertiesFile, connectors: ConnectorFiles = None, override: Override = None) -> None:
    """Run one worker without a group until SIGTERM or Ctrl-C; its connectors come from files and over REST."""

    def run() -> int:
        settings = _read_and_start_jvm(file, override)
        from spark_connect_rt.app.standalone import run_standalone

        return run_standalone(settings, connectors or [])

    _exit_with(run)


@cli.command()
def submit(
    file: PropertiesFile,
    connectors: ConnectorFiles = None,
    alone: Alone = False,
    cdc: Cdc = False,
    delta: Delta = False,
    keep: Keep = False,
    override: Override = None,
) -> None:
    """Run the job that the file names in connectrt.job (quickstart; default: a distributed worker)."""
    if alone or connectors:
        standalone(file, connectors, override)
        return
    from spark_connect_rt.config.connectrt_config import JobSettings

    job = _exit_with(lambda: JobSettings.of(read_settings(file, override)).connectrt_job, ends=False)
    if job == "quickstart":
        quickstart(file, cdc, delta, keep, override)
    elif cdc or delta:
        raise typer.BadParameter(f"--cdc needs connectrt.job=quickstart, but {file} is a worker's file.")
    else:
        worker(file, override)


def _read_and_start_jvm(
    file: Path, override: Sequence[str] | None, is_worth_it: Callable[[Mapping[str, str]], bool] = bool
) -> dict[str, str]:
    """Return a worker's settings; Spark's JVM comes up while what uses it is imported.

    It does not, if the worker is going to refuse these settings (``is_worth_it``).
    """
    _share_memory()
    from spark_connect_rt.engine.driver.spark_session import start_jvm_ahead

    settings = read_settings(file, override)
    if is_worth_it(settings):
        start_jvm_ahead(settings)
    return settings


def _share_memory() -> None:
    """Have this process, and what is forked from it, keep little of what was freed: before pyarrow is imported."""
    from spark_connect_rt.engine.executor.daemon import share_memory

    share_memory()


def _act(file: Path | None, override: Sequence[str] | None, command: Callable[[Mapping[str, str]], int]) -> object:
    return _exit_with(lambda: command(read_settings(file, override)))


@cli.command()
def explain(code: ErrorCode) -> None:
    """Show the meaning of an error code such as CRT-1040, and the fix."""
    from spark_connect_rt.cli.error_table import explanation

    def show() -> int:
        sys.stdout.write(f"{explanation(code)}\n")
        return 0

    _exit_with(show)


add_development_commands(cli, _act)
add_plugin_commands(cli, _act)
_offset_words, _file_reset = add_store_commands(cli, _act)
add_migrate_commands(cli, _act)
add_table_commands(cli, _act)
add_mirror_commands(cli, _act)
add_cluster_commands(cli, _offset_words, _file_reset)


def _exit_with(act: Callable[[], object], ends: bool = True) -> object:
    try:
        outcome = act()
    except StartupError as error:
        raise _complain(error, error.exit_code) from error
    except BadConfigError as error:
        from spark_connect_rt.base.exit_codes import EXIT_BAD_PROPERTIES

        raise _complain(error, EXIT_BAD_PROPERTIES) from error
    except ConnectError as error:
        raise _complain(error, 1) from error
    if ends and outcome:
        raise SystemExit(int(str(outcome)))
    return outcome


def _complain(error: ConnectError, exit_code: int) -> SystemExit:
    lines = [f"{error.code}: {error}"]
    if isinstance(error, BadConfigError):
        lines = [f"{error.code}: the configuration is invalid:"]
        lines += [f"  {key}: {why}" for key, reasons in error.problems.items() for why in reasons]
    if hint := explain_hint(error.code):
        lines.append(hint)
    sys.stderr.write("connectrt: " + "\n".join(lines) + "\n")
    return SystemExit(exit_code)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; exits the process."""
    cli(args=list(arguments) if arguments is not None else None, prog_name="connectrt")
