from __future__ import annotations

from pathlib import Path

import pytest

from tests.app.app_folder import AppFolder


@pytest.fixture
def place(tmp_path: Path) -> AppFolder:
    return AppFolder(tmp_path)
