"""One kind of program: its command line and the meaning of its lines. A subclass each for Singer and Airbyte.

Also its installation: its path on this machine, its environment variables, and the masking of its secrets.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from spark_connect_rt.connectors.external_process.child_process import Child, Mask, run_to_end
from spark_connect_rt.connectors.external_process.environments import inherited, program_path
from spark_connect_rt.connectors.external_process.program_output import Intake, Offset
from spark_connect_rt.connectors.external_process.program_settings import (
    json_of,
    merged,
    named_program,
    requirement_words,
)
from spark_connect_rt.connectors.external_process.stream_rows import RowSettings

# A temporary folder for one task's files: only their owner can read them, and ``remove`` deletes all of them.
#
# Owns files of configuration, which hold secrets (a command line shows its words to every user of a machine), and the
# masking of these secrets in the output of programs.


_SECRET_NAME = re.compile(r"pass|secret|token|key|credential|auth", re.IGNORECASE)
_SHORTEST = 4  # shorter ones would mask ordinary words
_MASKED = "[hidden]"


class PrivateFolder:
    """A folder with mode 0700, files in it with 0600."""

    def __init__(self, prefix: str) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=prefix))

    def write_json(self, name: str, tree: Any) -> Path:
        """Write a file and return its path; one of that name is replaced."""
        return self.write(name, json.dumps(tree))

    def write(self, name: str, text: str) -> Path:
        """Write a file of text and return its path; one of that name is replaced."""
        path = self.path / name
        path.unlink(missing_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def remove(self) -> None:
        """Remove the folder and all files in it."""
        shutil.rmtree(self.path, ignore_errors=True)


def masking(secrets: Iterable[str]) -> Callable[[str], str]:
    """Return a function that replaces each of these texts by ``[hidden]``, longest first."""
    words = sorted({secret for secret in secrets if len(secret) >= _SHORTEST}, key=len, reverse=True)
    if not words:
        return str
    pattern = re.compile("|".join(map(re.escape, words)))
    return lambda text: pattern.sub(_MASKED, text)


def texts_in(tree: Any, *, named_only: bool, named: bool = False) -> Iterator[str]:
    """Yield the texts of a tree; ``named_only``: those below a name that sounds secret."""
    if isinstance(tree, dict):
        for name, value in tree.items():
            yield from texts_in(value, named_only=named_only, named=named or bool(_SECRET_NAME.search(name)))
    elif isinstance(tree, list):
        for value in tree:
            yield from texts_in(value, named_only=named_only, named=named)
    elif isinstance(tree, str) and (named or not named_only):
        yield tree


@dataclass(frozen=True, slots=True)
class StreamCatalog:
    """The streams that a program offers: their names, and the program's own tree."""

    streams: tuple[str, ...]
    tree: Any


class Program(ABC):
    """One installed and configured program. Its files are in a private folder that ``close`` removes."""

    prefix: ClassVar[str]
    deleted_field: ClassVar[str]

    def __init__(self, values: Mapping[str, Any]) -> None:
        """Take parsed settings; nothing is installed yet."""
        self.values = values
        self.config = merged(json_of(self.setting("config")), json_of(self.setting("secret.config")))
        self.path: Path | None = None
        self.previewed = False
        """Whether it runs for a preview: then nothing outside its own folder is changed."""
        self._folder = PrivateFolder(f"connectrt-{self.prefix}-")

    def setting(self, name: str) -> Any:
        """Return a setting below the prefix."""
        return self.values[f"{self.prefix}.{name}"]

    def installation(self) -> tuple[list[str], str]:
        """Return the words that pip installs, and the program's name if no setting gives it."""
        requirement = requirement_words(self.setting("requirement"))
        return requirement, named_program(requirement)

    def install(self) -> None:
        """Find the program, its environment made if this is the first time. Raises EnvironmentFailedError."""
        requirement, name = self.installation()
        self.path = program_path(self.setting("executable") or "", requirement, self.setting("python"), name)

    def start(self, arguments: Sequence[str]) -> Child:
        """Start the program and return it as a child process. Raises ChildFailedError."""
        return Child(
            self._command(arguments),
            environment=self._environment(),
            folder=self._folder.path,
            mask=self.mask,
            line_limit_bytes=self.setting("line.max.bytes"),
        )

    def discovered(self) -> StreamCatalog:
        """Run its discovery to the end. Raises ChildFailedError, ConnectError: it offers nothing that can be read."""
        arguments = self.discover_arguments()
        if arguments is None:
            return self.catalog(b"")
        limit_s = self.setting("discover.timeout.ms") / 1000
        output = run_to_end(
            self._command(arguments),
            environment=self._environment(),
            folder=self._folder.path,
            mask=self.mask,
            limit_s=limit_s,
            explain=self.explain,
        )
        return self.catalog(output)

    @property
    def mask(self) -> Mask:
        """Return a function that hides its secrets in text."""
        return masking(
            [
                *texts_in(self.config, named_only=True),
                *texts_in(json_of(self.setting("secret.config")), named_only=False),
                *texts_in(json_of(self.setting("environment")), named_only=False),
            ]
        )

    def row_settings(self) -> RowSettings:
        """Return how its records become rows."""
        return RowSettings(
            structs=self.setting("value") == "struct",
            times=self.setting("times") == "timestamp",
            tombstones=self.setting("deletes") == "tombstone",
            deleted_field=self.deleted_field,
        )

    def file(self, name: str, content: Any) -> str:
        """Write a private file, text or a tree as JSON, and return its path."""
        write = self._folder.write if isinstance(content, str) else self._folder.write_json
        return str(write(name, content))

    @property
    def folder(self) -> Path:
        """Return the folder it runs in."""
        return self._folder.path

    def close(self) -> None:
        """Remove its private folder with all files."""
        self._folder.remove()

    def _command(self, arguments: Sequence[str]) -> list[str]:
        if self.path is None:
            self.install()
        return [str(self.path), *arguments]

    def _environment(self) -> dict[str, str]:
        more = {name: str(value) for name, value in json_of(self.setting("environment")).items()}
        made = inherited({**more, "TMPDIR": str(self._folder.path)})
        beside = str(self.path.parent) if self.path is not None else ""
        return {**made, "PATH": os.pathsep.join(filter(None, [beside, made.get("PATH", "")]))}

    @abstractmethod
    def discover_arguments(self) -> list[str] | None:
        """Return the arguments that make it print its catalog, files written; None: the catalog is known."""

    @abstractmethod
    def catalog(self, output: bytes) -> StreamCatalog:
        """Return the catalog of its output. Raises ConnectError: there is none in it."""

    @abstractmethod
    def read_arguments(self, catalog: StreamCatalog, intake: Intake, offsets: Mapping[str, Offset]) -> list[str]:
        """Return the arguments of a run over the intake's streams from these offsets, files written.

        Raises ConnectError: a stream is not in the catalog.
        """

    def explain(self, output: bytes) -> str:
        """Return why it failed, as far as the output of its discovery shows it."""
        return ""

    def judge(self) -> None:
        """Return when the run that has ended reported no error.

        Raises ChildFailedError; ExternalError: another run would not help.
        """

    def on_end(self, intake: Intake) -> None:
        """Note that a run ended successfully, before the next one."""

    @abstractmethod
    def on_message(self, message: Mapping[str, Any], intake: Intake) -> None:
        """Take one line that is a JSON object.

        Raises DataError: it cannot be used. ChildFailedError: the run is over. ConnectError: so is the task.
        """
