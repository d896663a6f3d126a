"""``connectrt edit``: a configuration in the user's editor; changes of others in the meantime are not overwritten."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from spark_connect_rt.cli.differences import config_differences
from spark_connect_rt.cli.files import Document, documents_of
from spark_connect_rt.cli.output import show_differences
from spark_connect_rt.cli.session import ChangedMeanwhileError, Session, lines_of
from spark_connect_rt.cli.tables import yaml_text
from spark_connect_rt.errors import BadConfigError, ConnectError
from spark_connect_rt.rest.client import calls
from spark_connect_rt.rest.client.refusals import RefusedError

_HEAD = "# Connector {name}. Lines that begin with # are ignored. An unchanged file changes nothing.\n"


def edit(session: Session, name: str) -> int:
    """Open the configuration, put it back; refused text is opened again with what is wrong.

    Raises ChangedMeanwhileError: the configuration is no longer what was opened; the edit is kept in its file.
    """
    before = dict(session.ask(calls.config(name)))
    handle, file = tempfile.mkstemp(prefix="connectrt-", suffix=".yaml")  # mode 600: it may hold passwords
    os.close(handle)
    path = Path(file)
    first = text = _HEAD.format(name=name) + yaml_text(before)
    path.write_text(first, "utf-8")
    keep = False
    try:
        while True:
            edited = _edited(session, path, text)
            try:
                wanted = _only(edited, name)
                if not config_differences(before, wanted.config):
                    session.terminal.line(f"connector {name} unchanged")
                    break
                _put(session, name, before, wanted.config)
                session.terminal.line(f"connector {name} configured")
                break
            except (BadConfigError, RefusedError) as error:
                if edited == text or not session.terminal.is_interactive():
                    raise
                text = _with_problems(edited, lines_of(error))
    except ConnectError:
        keep = path.read_text("utf-8", "replace") != first  # a file without an edit is deleted
        if keep:
            session.terminal.note(f"your edit is in {path}")
        raise
    finally:
        if not keep:
            path.unlink(missing_ok=True)
    return 0


def _edited(session: Session, path: Path, text: str) -> str:
    environment = session.around.environment
    editor = environment.get("VISUAL") or environment.get("EDITOR") or "vi"
    path.write_text(text, "utf-8")
    try:
        ended = subprocess.run([*shlex.split(editor), str(path)], check=False)
    except (OSError, ValueError) as error:
        raise ConnectError(f"the editor {editor} cannot be started: {error}. Set EDITOR") from error
    if ended.returncode:
        raise ConnectError(f"the editor {editor} failed with exit code {ended.returncode}")
    return path.read_text("utf-8", "replace")


def _only(text: str, name: str) -> Document:
    (document,) = documents_of(text, "edit.yaml")[:1]
    if document.name != name:
        raise BadConfigError({"name": [f"must stay {name}, because a connector cannot be renamed"]})
    return document


def _put(session: Session, name: str, before: Mapping[str, str], wanted: Mapping[str, str]) -> None:
    now = session.ask(calls.config(name))
    meanwhile = config_differences(before, now)
    if meanwhile:
        show_differences(session, f"connector {name} was changed by another client in the meantime:", meanwhile)
        raise ChangedMeanwhileError(f"connector {name} has changed since it was opened. Nothing was written")
    show_differences(session, f"connector {name}", config_differences(before, wanted))
    session.ask(calls.put_config(name, wanted))


def _with_problems(text: str, problems: Sequence[str]) -> str:
    kept = [line for line in text.splitlines() if not line.startswith("#")]
    head = [f"# {part}" for line in problems for part in line.splitlines()]
    return "\n".join([*head, *kept]) + "\n"
