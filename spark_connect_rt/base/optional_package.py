"""Packages of the extras: imported when something needs them, refused in words that name the extra."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from typing import Any

from spark_connect_rt.errors import ConnectError

_CODES = {
    "quickstart": "CRT-1087",
    "registry": "CRT-1102",
    "dlt": "CRT-1140",
    "iceberg": "CRT-1200",
    "delta": "CRT-1201",
    "objects": "CRT-1202",
    "cdc": "CRT-1231",
}


def optional_module(name: str, extra: str, user: str) -> Any:
    """Return the module ``name`` of the extra. ``user`` (a plural) is the part that needs it, as the message names it.

    Raises ConnectError with the extra's code: the module, or one that it imports, is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise _missing(error.name, extra, user) from error


def package_folder(name: str, extra: str, user: str) -> Path:
    """Return the folder of a package whose files alone are needed: nothing is imported. See ``optional_module``."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise _missing(name, extra, user)
    return Path(spec.origin).parent


def _missing(name: str | None, extra: str, user: str) -> ConnectError:
    words = f"{user} need more packages ({name}): pip install 'spark-connect-rt[{extra}]'"
    return ConnectError(words, code=_CODES[extra])
