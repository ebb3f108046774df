"""A folder of its own for every test of the terminal program."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.desk.tui.scripted_terminal import fill_folder, forget_calls


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(fill_folder(tmp_path))
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("HANDRAIL_JOURNAL", "HANDRAIL_CONFIG", "NO_COLOR", "TEXTUAL_THEME"):
        monkeypatch.delenv(name, raising=False)
    yield tmp_path
    forget_calls()
