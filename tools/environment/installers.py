"""The commands that uv and pip are run by, and what uv has to know of pip's configuration. Pure."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from pathlib import Path

UV = "uv==0.13.9"  # brought by pip where there is none; any version of the user's own serves
PIP = "pip==26.3"  # uv needs none; users do, and so do plug-ins that are installed while a worker runs
BIG = "pyspark"  # the only large source distribution: half of the time of an installation
# Its jars are compressed already: to deflate them again takes half a minute.
STORED = "--build-option=--compression=stored"

# pip's setting: the variable by which uv takes the same.
_OF_PIP = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "trusted-host": "UV_INSECURE_HOST",
    "cert": "SSL_CERT_FILE",
    "proxy": "ALL_PROXY",
}
_LISTS = {"UV_INDEX": " ", "UV_FIND_LINKS": ",", "UV_INSECURE_HOST": " "}


def uv_variables(pip_config: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables by which uv uses the index, proxy and certificates that pip is configured to use.

    ``pip_config`` is what ``pip config list`` prints. A variable that is set in ``environment`` stays as it is.
    """
    found: dict[str, str] = {}
    for line in pip_config.splitlines():
        key, _, text = line.partition("=")
        variable = _OF_PIP.get(key.rpartition(".")[2])
        if variable is None or environment.get(variable):
            continue
        try:
            value = str(ast.literal_eval(text))
        except (ValueError, SyntaxError):
            continue
        found[variable] = _LISTS[variable].join(value.split()) if variable in _LISTS else value.strip()
    return {name: value for name, value in found.items() if value}


def without_big(lock: str) -> str:
    """Return a lock file's lines without the big source distribution."""
    return "".join(line for line in lock.splitlines(keepends=True) if not line.startswith(f"{BIG}=="))


def uv_install(uv: Sequence[str], python: Path, *what: str) -> list[str]:
    """Return the command by which ``uv`` installs ``what`` into the environment of ``python``."""
    return [*uv, "pip", "install", "--python", str(python), "--no-deps", f"--config-setting={STORED}", *what]


def pip_install(pip: Sequence[str], *what: str) -> list[str]:
    """Return the command by which ``pip`` does the same."""
    options = ["--disable-pip-version-check", "--no-input", "--retries", "1", "--no-compile", "--no-deps"]
    return [*pip, "install", *options, *what]


def shown_lines(text: str) -> list[str]:
    """Return the lines of an installer's output that say what is downloaded or built, for a log without a terminal."""
    lines = (line.strip() for line in text.splitlines())
    return [line for line in lines if line.startswith(("Downloading ", "Building ", "Built "))]
