"""The ``commit`` of ``GET /``: 16 hex digits, as clients parse them.

In a checkout the commit that is checked out; else a digest of the installed modules: what differs is another build.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[2]


def build_commit(package: Path = _PACKAGE, root: Path = _PACKAGE.parent) -> str:
    """Return the first 16 digits of the commit, or of the digest of ``package``'s modules."""
    return commit_of_checkout(root) or _digest(package)


def commit_of_checkout(root: Path) -> str | None:
    """Return the commit of the git checkout whose top folder is ``root``; None: it is none, or cannot be read."""
    try:
        folder = _git_folder(root / ".git")
        head = (folder / "HEAD").read_text("utf-8").strip()
        commit = _of_branch(folder, head.removeprefix("ref: ")) if head.startswith("ref: ") else head
    except OSError:
        return None
    return commit[:16] if commit and len(commit) >= 40 else None


def _git_folder(place: Path) -> Path:
    if place.is_dir():
        return place
    return place.parent / place.read_text("utf-8").strip().removeprefix("gitdir: ")  # a work tree of its own


def _of_branch(folder: Path, branch: str) -> str | None:
    shared = folder / "commondir"
    home = folder / shared.read_text("utf-8").strip() if shared.exists() else folder
    if (home / branch).exists():
        return (home / branch).read_text("utf-8").strip()
    lines = (home / "packed-refs").read_text("utf-8").splitlines()
    return next((line.split()[0] for line in lines if line.endswith(f" {branch}")), None)


def _digest(package: Path) -> str:
    digest = hashlib.sha256()
    for module in sorted(package.rglob("*.py")):
        digest.update(str(module.relative_to(package)).encode() + b"\0" + module.read_bytes())
    return digest.hexdigest()[:16]
