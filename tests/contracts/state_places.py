"""The places that a store of a node may be in: files on this machine, and a state on a real PostgreSQL server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from handrail.state.database import StateDatabase


@pytest.fixture(params=["files", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path | StateDatabase]:
    if request.param == "files":
        yield tmp_path
        return
    with closing(StateDatabase.open(request.getfixturevalue("postgres_url"))) as database:
        yield database


def file_in(place: Path | StateDatabase, name: str) -> Path | StateDatabase:
    """This file where the place is a folder."""
    return place / name if isinstance(place, Path) else place
