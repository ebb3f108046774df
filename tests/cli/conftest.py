"""One journal for all tests of the command line: made once, copied for each."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.journal_fixtures import Journal, confirmed, make, payments, sums
from tests.cli.terminal_fixtures import fill


@pytest.fixture(scope="session")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("original") / ".handrail" / "journal.db", sums, payments, confirmed)


@pytest.fixture
def journal(original: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Journal:
    """The current folder has the journal where the commands look for it."""
    shutil.copytree(original.parent, tmp_path / ".handrail")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HANDRAIL_JOURNAL", raising=False)
    return Journal(tmp_path / ".handrail" / "journal.db")


@pytest.fixture
def folder(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder has tools and a scripted model, and no journal yet. Approvals are kept elsewhere."""
    monkeypatch.chdir(fill(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
    monkeypatch.syspath_prepend(tmp_path)  # so that what a command adds to the path is taken off again
    monkeypatch.delenv("HANDRAIL_JOURNAL", raising=False)
    monkeypatch.delenv("HANDRAIL_CONFIG", raising=False)
    yield tmp_path
    sys.modules.pop("talk_tools", None)
