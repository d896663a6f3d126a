"""A temporary folder for one task's files: none but their owner reads them, and nothing of it stays.

Owns files of configuration, which hold secrets (a command line shows its words to every user of a machine), and the
masking of these secrets in what programs write.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

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
        """Remove all of it."""
        shutil.rmtree(self.path, ignore_errors=True)


def masking(secrets: Iterable[str]) -> Callable[[str], str]:
    """Return what replaces each of these texts by ``[hidden]``, longest first."""
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
