"""A worker that asks for a login: the settings of Connect's extension for basic authentication, with its files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

_EXTENSION = "org.apache.kafka.connect.rest.basic.auth.extension"


def login_settings(folder: Path, users: Mapping[str, str]) -> dict[str, str]:
    """Write the files into a folder; return the settings. ``users``: name -> password."""
    known, file = folder / "users.properties", folder / "login.conf"
    known.write_text("".join(f"{name}={password}\n" for name, password in users.items()))
    file.write_text(f'KafkaConnect {{ {_EXTENSION}.PropertyFileLoginModule required file="{known}"; }};')
    return {
        "rest.extension.classes": f"{_EXTENSION}.BasicAuthSecurityRestExtension",
        "connectrt.rest.login.config": str(file),
    }
