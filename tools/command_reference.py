"""The page of every word of ``connectrt``, made from the command line itself (``python -m tools.reference_docs``)."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Any

import typer

from spark_connect_rt.app.cli import cli

_EVERYWHERE = ("--context", "--url", "--help")


def command_line() -> str:
    """Return the page's text below its mark: a section for each word, in the order of the help."""
    root = typer.main.get_command(cli)
    commands = list(_commands(root, ()))
    parts = [
        "`connectrt WORD --help` says the same. Words that speak to a cluster take `--context NAME` and `--url URL`,\n"
        "too ([how to](../howto/cli.md)); their exit codes are among [these](exit_codes.md).\n",
        "| word | what it does |\n|---|---|\n"
        + "\n".join(f"| [{_title(path)}](#{_anchor(path)}) | {_cell(_first(command))} |" for path, command in commands)
        + "\n",
    ]
    return "\n".join([*parts, *(_section(path, command) for path, command in commands)])


def _commands(group: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _commands(command, (*path, name))
        elif not command.hidden:
            yield (*path, name), command


def _section(path: tuple[str, ...], command: Any) -> str:
    shown = [param for param in command.params if not getattr(param, "hidden", False)]
    arguments = [param for param in shown if param.param_type_name == "argument"]
    options = [param for param in shown if param.param_type_name == "option"]
    own = [option for option in options if _on_cluster(options) is False or option.opts[0] not in _EVERYWHERE]
    usage = " ".join(["connectrt", *path, *(["[OPTIONS]"] if options else []), *map(_argument, arguments)])
    rows = [f"| `{_argument(argument)}` | {_cell(argument.help or '')} | |" for argument in arguments]
    rows += [
        f"| {_names(param)} | {_cell(param.help or '')} | {_default(param)} |"
        for param in own
        if "--help" not in param.opts
    ]
    table = ["", "| | | default |", "|---|---|---|", *rows] if rows else []
    return "\n".join([f"## {_title(path)}\n", f"`{usage}`\n", _paragraph(command.help or ""), *table]) + "\n"


def _on_cluster(options: list[Any]) -> bool:
    return any("--context" in option.opts for option in options)


def _argument(param: Any) -> str:
    name = param.metavar or param.name.upper()
    if param.required or name.startswith("["):
        return str(name)
    return f"[{name}{'...' if param.nargs == -1 else ''}]"


def _names(param: Any) -> str:
    return ", ".join(f"`{name}`" for name in (*param.opts, *param.secondary_opts))


def _default(param: Any) -> str:
    default = param.default
    if default is None or default is False or default == "" or default == () or callable(default):
        return " "
    return f"`{default.value if isinstance(default, Enum) else default}`"


def _first(command: Any) -> str:
    return str((command.help or "").strip().partition("\n\n")[0])


def _title(path: tuple[str, ...]) -> str:
    return " ".join(path)


def _anchor(path: tuple[str, ...]) -> str:
    return "-".join(path)


def _paragraph(text: str) -> str:
    return "\n\n".join(" ".join(part.split()) for part in text.strip().split("\n\n"))


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("*", "\\*")
