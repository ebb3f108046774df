"""Whether git tracks a file, told from its index without running git."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from handrail.core.git_index import is_tracked

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def git(folder: Path, *words: str) -> None:
    author = ("-c", "user.name=ada", "-c", "user.email=ada@example.org")
    subprocess.run(["git", *author, *words], cwd=folder, check=True, capture_output=True)


def repository(folder: Path, *tracked: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q")
    for name in tracked:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    if tracked:
        git(folder, "add", "-f", "--", *tracked)
    return folder


@needs_git
@pytest.mark.parametrize("version", ["2", "3", "4"])
def test_what_is_in_the_index_is_tracked_and_what_is_like_it_is_not(tmp_path: Path, version: str) -> None:
    here = repository(tmp_path, "a", ".handrail/journal.db", "z/.handrail-not/x", "z/y/.hidden/k", "zz")
    if version == "3":
        git(here, "add", "-N", ".")  # an entry that is only intended has more flags
        (here / "later").write_text("")
        git(here, "add", "-N", "later")
    git(here, "update-index", "--index-version", version) if version != "3" else None

    tracked = (".handrail", ".handrail/journal.db", "a", "z", "z/y/.hidden", "zz")
    others = ("handrail", ".handrail/journal.key", "b", "z/.handrail", "y", "z/y/.hidden/kk", "y/.hidden")
    assert [name for name in tracked if not is_tracked(here / name)] == []
    assert [name for name in others if is_tracked(here / name)] == []


@needs_git
def test_a_worktree_and_a_link_are_looked_up_in_their_own_index(tmp_path: Path) -> None:
    here = repository(tmp_path / "here", "a")
    (here / ".handrail").symlink_to("elsewhere")
    git(here, "add", ".handrail")
    git(here, "commit", "-qm", "first")
    git(here, "worktree", "add", "-q", str(tmp_path / "tree"))

    assert is_tracked(here / ".handrail")
    assert is_tracked(tmp_path / "tree" / ".handrail")
    assert not is_tracked(tmp_path / "tree" / "b")


@needs_git
def test_a_split_index_is_read_whole(tmp_path: Path) -> None:
    here = repository(tmp_path, ".handrail/journal.key", "a")
    git(here, "update-index", "--split-index")

    assert is_tracked(here / ".handrail")


def test_without_a_repository_or_with_a_damaged_one_nothing_is_tracked(tmp_path: Path) -> None:
    (tmp_path / "one" / ".git").mkdir(parents=True)
    (tmp_path / "one" / ".git" / "index").write_bytes(b"DIRC\0\0\0\4\xff\xff\xff\xff")
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / ".git").write_bytes(b"\xff")

    assert [is_tracked(tmp_path / name / "a") for name in ("one", "two", "three")] == [False] * 3
