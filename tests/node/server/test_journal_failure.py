"""A node whose record cannot be written: it says so to whoever watches it, and of every call what became of it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest

from tests.app.test_network_node import CONFIG, opened, served


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "handrail.toml").write_text(CONFIG)
    (tmp_path / "replies.toml").write_text('[[reply]]\ntext = "never"\n')
    yield tmp_path


async def status(url: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(f"{url}/ready") as answer:
        return answer.status, await answer.text()


async def test_a_node_whose_journal_is_gone_is_not_ready(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    async with opened(folder) as node, served(node) as url:
        before = await status(url)
        (folder / ".handrail" / "journal.db").rename(folder / "elsewhere.db")
        after = await status(url)
        async with aiohttp.ClientSession() as session, session.get(f"{url}/health") as answer:
            alive = answer.status

    assert before[0] == 200
    assert (after[0], "cannot keep its record" in after[1], str(folder) in after[1]) == (503, True, False)
    assert alive == 200
