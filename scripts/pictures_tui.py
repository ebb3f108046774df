"""Pictures of the terminal program for the docs: the program itself, over real tools and a scripted model.

python scripts/pictures_tui.py [FOLDER]      by default docs/pictures
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from textual.pilot import Pilot

from handrail.app import AppAdditions, Person
from handrail.config.approvals import Approvals
from handrail.config.load import load_config
from handrail.desk.desk import open_desk
from handrail.desk.tui.app import TuiApp
from handrail.desk.tui.call_card import CallCard
from handrail.desk.tui.proof import ProofScreen
from handrail.desk.tui.question import QuestionScreen
from handrail.desk.tui.tools import ToolsScreen

DOCS = Path(__file__).resolve().parents[1] / "docs"
SIZE = (100, 30)
_FONTS = re.compile(r"@font-face\s*\{[^}]*\}")
"""They would be fetched from elsewhere; the reader's own monospaced font does."""


async def pictures(folder: Path, out: Path) -> None:
    """Of a copy of the shop in that folder."""
    person = Person(by="ada", approvals=Approvals(folder / "approvals.json"))
    config, journal = load_config(folder / "handrail.toml"), folder / ".handrail" / "journal.db"
    async with open_desk(config, journal, AppAdditions(), person, look=None) as desk:
        app = TuiApp(desk, await desk.begin())
        async with app.run_test(size=SIZE) as pilot:
            await _talk(app, pilot, out)
            await _browse(app, pilot, out)
            app.workers.cancel_all()
            await pilot.pause()


async def _talk(app: TuiApp, pilot: Pilot[None], out: Path) -> None:
    await _say(pilot, "We need 20 umbrellas for Saturday. Are there enough?")
    await _until(pilot, lambda: isinstance(app.screen, QuestionScreen))
    await _loaded(app, pilot)
    _take(app, out / "tui-question.svg")
    await pilot.press("tab", "enter")
    await _until(pilot, lambda: app.chat.state == "idle" and len(app.chat.query(CallCard)) == 2)
    await pilot.press("shift+tab", "enter")
    await _until(pilot, lambda: any(card.unfolded for card in app.chat.query(CallCard)))
    _take(app, out / "tui-chat.svg")
    await pilot.press("enter", "tab")
    await _say(pilot, "Which customer ordered them?")
    await _until(pilot, lambda: app.chat.state == "failed")
    _take(app, out / "tui-alert.svg")


async def _browse(app: TuiApp, pilot: Pilot[None], out: Path) -> None:
    for key, kind, name in (("f2", ToolsScreen, "tui-tools.svg"), ("f3", ProofScreen, "tui-proof.svg")):
        await pilot.press(key)
        await _until(pilot, lambda kind=kind: isinstance(app.screen, kind))  # type: ignore[misc]  # mypy knows no default
        await _loaded(app, pilot)
        await pilot.press("end")  # the tool that changes something
        await _loaded(app, pilot)
        _take(app, out / name)
        await pilot.press("escape")


async def _loaded(app: TuiApp, pilot: Pilot[None]) -> None:
    await _until(pilot, lambda: all(each.is_finished for each in app.workers if each.node is app.screen))
    await pilot.pause()


async def _say(pilot: Pilot[None], words: str) -> None:
    await pilot.press(*("space" if letter == " " else letter for letter in words), "enter")


async def _until(pilot: Pilot[None], holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds():
            await pilot.pause()


def _take(app: TuiApp, path: Path) -> None:
    path.write_text(_FONTS.sub("", app.export_screenshot(title="handrail tui")), encoding="utf-8")
    print(path)


def main() -> None:
    out = Path(sys.argv[1] if len(sys.argv) > 1 else DOCS / "pictures").resolve()
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        shop = Path(shutil.copytree(DOCS / "examples" / "house", Path(folder) / "shop"))
        with contextlib.chdir(shop):
            asyncio.run(pictures(shop, out))


if __name__ == "__main__":
    main()
