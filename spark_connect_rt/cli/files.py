"""Files, folders and standard input of ``-f``."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from spark_connect_rt.cli.connector_documents import SUFFIXES, Document, documents_of, without_twins
from spark_connect_rt.errors import BadConfigError, BadRequestError


def read_documents(names: Sequence[str]) -> list[Document]:
    """Return the connectors of all files; a folder is read with its subfolders, ``-`` is standard input.

    Raises BadConfigError with every file that cannot be read; then nothing is done.
    """
    if not names:
        raise BadRequestError("no files given. Use -f FILE, -f FOLDER or -f -")
    documents: list[Document] = []
    problems: dict[str, Sequence[str]] = {}
    for name in names:
        try:
            for path, text in _texts(name):
                documents += documents_of(text, path)
        except BadConfigError as error:
            problems.update(error.problems)
    if problems:
        raise BadConfigError(problems)
    return without_twins(documents)


def read_one(name: str) -> Document:
    """Return the only connector of a file. Raises BadConfigError."""
    documents = read_documents([name])
    if len(documents) != 1:
        raise BadConfigError({name: [f"contains {len(documents)} connectors, but must contain one"]})
    return documents[0]


def read_text(name: str) -> str:
    """Return what a file (``-``: standard input) holds. Raises BadConfigError."""
    try:
        if name == "-":
            return sys.stdin.read()
        content = Path(name).read_bytes()
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise BadConfigError({name: [getattr(error, "strerror", None) or str(error)]}) from error
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if name.endswith(".properties"):
            return content.decode("iso-8859-1")  # as Java does
        raise BadConfigError({name: [f"is not valid UTF-8: {error}"]}) from error


def read_json(name: str) -> Any:
    """Return the JSON that a file holds. Raises BadRequestError, BadConfigError."""
    try:
        return json.loads(read_text(name))
    except (ValueError, RecursionError) as error:
        raise BadRequestError(f"{name} is not valid JSON: {error}") from error


def read_offsets(name: str) -> list[dict[str, Any]]:
    """Return ``{"partition", "offset"}`` of a file as ``GET /connectors/NAME/offsets`` answers, or of its list alone.

    Raises BadRequestError, BadConfigError.
    """
    found = read_json(name)
    offsets = found.get("offsets") if isinstance(found, dict) else found
    if not isinstance(offsets, list) or not all(
        isinstance(offset, dict) and "partition" in offset for offset in offsets
    ):
        raise BadRequestError(f'{name}: expected {{"offsets": [{{"partition": ..., "offset": ...}}]}}')
    return [{"partition": offset["partition"], "offset": offset.get("offset")} for offset in offsets]


def _texts(name: str) -> Iterable[tuple[str, str]]:
    path = Path(name)
    if name == "-" or not path.is_dir():
        yield ("standard input" if name == "-" else name), read_text(name)
        return
    files = sorted(
        candidate for candidate in path.rglob("*") if candidate.suffix.lower() in SUFFIXES and candidate.is_file()
    )
    if not files:
        raise BadConfigError({name: [f"the folder contains no file of {', '.join(SUFFIXES)}"]})
    for file in files:
        yield str(file), read_text(str(file))
