"""The token by which a client shows that it may read this user's files. Installing a plug-in runs code as this user.

A client's address proves nothing where a proxy on the same machine passes on requests of others. Made by the worker,
read by the worker and by ``connectrt plugins`` on its machine.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from pathlib import Path

from spark_connect_rt.base.cache import cache_directory
from spark_connect_rt.config.management_config import TOKEN_FILE
from spark_connect_rt.errors import BadConfigError

NAME = "install.token"
TOKEN_BYTES = 32


def token_file(configured: str | None = None) -> Path:
    """Return where the token is: the configured file, else one of this user's cache."""
    return Path(configured) if configured else cache_directory() / NAME


def made_token(file: Path) -> str:
    """Return the token in ``file``; a file that is missing is made, with mode 600.

    Raises BadConfigError: others may read it, it is another user's, or it cannot be read or written.
    """
    if not file.exists():
        draft = file.with_name(f".{file.name}.{os.getpid()}.{secrets.token_hex(4)}")
        try:
            with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as opened:
                opened.write(secrets.token_urlsafe(TOKEN_BYTES))
            with contextlib.suppress(FileExistsError):  # another worker was first: its token counts
                os.link(draft, file)
        except OSError as error:
            raise _refused(file, f"cannot be written: {error.strerror}") from error
        finally:
            draft.unlink(missing_ok=True)
    return read_token(file)


def read_token(file: Path) -> str:
    """Return the token in ``file``. Raises BadConfigError: it is not this user's alone, or cannot be read."""
    try:
        with file.open(encoding="utf-8") as opened:
            found, text = os.fstat(opened.fileno()), opened.read(4_096).strip()
    except (OSError, ValueError) as error:
        raise _refused(file, f"cannot be read: {error}") from error
    if found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise _refused(file, f"other users can read it (mode {stat.S_IMODE(found.st_mode):o}). Run chmod 600 on it")
    if len(text) < TOKEN_BYTES or not text.isascii():
        raise _refused(file, f"contains no token. Write at least {TOKEN_BYTES} random characters into it")
    return text


def _refused(file: Path, why: str) -> BadConfigError:
    return BadConfigError({TOKEN_FILE: [f"{file} {why}"]})
