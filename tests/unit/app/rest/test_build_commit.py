"""Sixteen hex digits say which build answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_connect_rt.app.rest.rest_api import build_commit, commit_of_checkout

HASH = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / ".git" / "refs" / "heads").mkdir(parents=True)
    (tmp_path / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    return tmp_path


def test_a_branch_names_its_commit(checkout: Path) -> None:
    (checkout / ".git" / "refs" / "heads" / "main").write_text(HASH + "\n")
    assert commit_of_checkout(checkout) == HASH[:16]


def test_a_packed_branch_and_a_bare_commit(checkout: Path) -> None:
    (checkout / ".git" / "packed-refs").write_text(
        f"# pack-refs\n{'f' * 40} refs/heads/other\n{HASH} refs/heads/main\n"
    )
    assert commit_of_checkout(checkout) == HASH[:16]
    (checkout / ".git" / "HEAD").write_text("f" * 40 + "\n")
    assert commit_of_checkout(checkout) == "f" * 16


def test_a_separate_work_tree(checkout: Path, tmp_path: Path) -> None:
    own = checkout / ".git" / "worktrees" / "own"
    own.mkdir(parents=True)
    (own / "HEAD").write_text("ref: refs/heads/main\n")
    (own / "commondir").write_text("../..\n")
    (checkout / ".git" / "refs" / "heads" / "main").write_text(HASH)
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / ".git").write_text(f"gitdir: {own}\n")
    assert commit_of_checkout(tree) == HASH[:16]


def test_without_a_checkout_the_installed_files_distinguish_builds(tmp_path: Path) -> None:
    assert commit_of_checkout(tmp_path) is None
    (tmp_path / "a.py").write_text("1")
    first = build_commit(tmp_path, tmp_path)
    assert len(first) == 16
    assert int(first, 16) >= 0
    assert build_commit(tmp_path, tmp_path) == first
    (tmp_path / "a.py").write_text("2")
    assert build_commit(tmp_path, tmp_path) != first
