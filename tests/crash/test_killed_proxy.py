"""`handrail mcp serve` killed while a payment is under way, started again, and called again: it is paid once."""

from __future__ import annotations

import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from textwrap import dedent

import pytest
from mcp import Client, StdioServerParameters
from mcp.shared.exceptions import MCPError

from tests import prestarted
from tests.mcp.server.server_setup import ERAS, keyed, text

TOOLS = """
    import os, signal
    from pathlib import Path
    from handrail import tool

    FOLDER = Path(__file__).parent

    @tool(side_effects=True)
    def pay(to: str, cents: int) -> str:
        '''Pay somebody.'''
        if (FOLDER / "die before").exists():
            os.kill(os.getpid(), signal.SIGKILL)
        with (FOLDER / "book.txt").open("a") as book:
            book.write(f"paid {cents} to {to}\\n")
        if (FOLDER / "die after").exists():
            os.kill(os.getpid(), signal.SIGKILL)
        return f"paid {cents} to {to}"
"""
PAY = {"to": "ada", "cents": 500}
era = pytest.mark.parametrize("era", ERAS)


class Shop:
    """A folder with a tool, a journal, and a book of what was really paid."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "tools.py").write_text(dedent(TOOLS))
        (folder / "handrail.toml").write_text('[proof]\njournal = "journal.db"\n')

    @property
    def book(self) -> list[str]:
        path = self.folder / "book.txt"
        return path.read_text().splitlines() if path.exists() else []

    def handrail(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [*prestarted.command(), "-m", "handrail", *arguments, "--journal", str(self.folder / "journal.db")]
        return subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False, timeout=120)

    @asynccontextmanager
    async def client(self, era: str, *options: str) -> AsyncIterator[Client]:
        python, *rest = prestarted.command()
        served = ("-m", "handrail", "mcp", "serve", "--tools", "tools.py", "--journal", "journal.db", *options)
        program = StdioServerParameters(command=python, args=[*rest, *served], cwd=self.folder)
        async with Client(program, mode=era, cache=None, read_timeout_seconds=60) as connected:
            yield connected

    async def pay(self, era: str, *options: str, key: str = "") -> str:
        """One client from its start to its end; the error, if the server dies under it."""
        said = ""
        try:
            async with self.client(era, *options) as client:
                said = text(await client.call_tool("pay", PAY, meta=keyed(key) if key else None))
        except* (MCPError, OSError) as lost:
            said = said or f"lost: {lost.exceptions[0]}"
        return said


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


@era
@pytest.mark.parametrize("key", ["", "order-17"])
async def test_a_payment_that_was_made_before_the_proxy_died_is_in_doubt_and_not_made_again(
    era: str, key: str, shop: Shop
) -> None:
    (shop.folder / "die after").touch()
    assert (await shop.pay(era, "--rule", "allow pay", key=key)).startswith("lost")
    (shop.folder / "die after").unlink()
    for _ in range(2):
        assert "not known" in await shop.pay(era, "--rule", "allow pay", key=key)
    assert shop.book == ["paid 500 to ada"]


@era
async def test_what_a_person_found_out_is_the_answer_from_then_on(era: str, shop: Shop) -> None:
    (shop.folder / "die before").touch()
    await shop.pay(era, "--rule", "allow pay")
    (shop.folder / "die before").unlink()
    said = await shop.pay(era, "--rule", "allow pay")
    run, call = said.partition("handrail confirm settle ")[2].split()[:2]
    assert shop.handrail("confirm", "settle", run, call, "--not-run").returncode == 0
    assert await shop.pay(era, "--rule", "allow pay") == "paid 500 to ada"
    assert shop.book == ["paid 500 to ada"]


@era
async def test_a_grant_outlives_the_client_that_asked_for_it_and_is_used_once(era: str, shop: Shop) -> None:
    waits = await shop.pay(era)
    assert "waits for a person" in waits
    request = waits.partition("(request ")[2].partition(")")[0]
    assert shop.handrail("confirm", "allow", request).returncode == 0
    assert (await shop.pay(era)).startswith("paid 500 to ada")
    assert "not run again" in await shop.pay(era)
    assert shop.book == ["paid 500 to ada"]
