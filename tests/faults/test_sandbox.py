"""Fault 41 of the fault list, part by part, through the doors that users have: code of a model that wants out.

Environment, fork bomb, flood, links, objects with ideas of their own, orders to the terminal: contained, and only JSON
crosses. The attacks of `tests/sandbox` are many more; here is what is seen outside: what the model reads, the
completion, the journal, the trajectory, the terminal, the page. They run in Monty and in the jail, and nowhere else.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from handrail.execute.policy import Policy
from handrail.rlm import RLM, RLMLogger
from handrail.rlm.values import RLMChatCompletion
from handrail.sandbox.jail import unavailable
from handrail.sandbox.port import ReplLimits
from handrail.tools.tool import tool
from tests.cli.conftest import folder
from tests.cli.journal_fixtures import run
from tests.rlm.root_models import Root, ready, repl
from tests.sandbox.host_watch import HostWatch

__all__ = ["folder"]

CANARY = "sk-canary-0123456789abcdef0123456789abcdef"
LIMITS = ReplLimits(memory_bytes=128 * 2**20, cell_seconds=20.0, output_chars=20_000)

both = pytest.mark.parametrize(
    "kind",
    ["monty", pytest.param("os", marks=pytest.mark.skipif(unavailable() is not None, reason=str(unavailable())))],
)


async def attacked(kind: str, *cells: str, folder: Path | None = None) -> tuple[Root, RLMChatCompletion]:
    """Each cell in a turn of its own, and then an answer: the run goes on whatever they do."""
    root = Root(*map(repl, cells), ready("'still here'"))
    logger = None if folder is None else RLMLogger(str(folder))
    journal = None if folder is None else folder / "journal.db"
    async with RLM(root, environment=kind, limits=LIMITS, logger=logger, journal=journal) as rlm:
        found = await rlm.acompletion("a context", "a question")
    assert (found.response, found.partial) == ("still here", False)
    return root, found


def holding(words: str, folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and words.encode() in path.read_bytes()]


def is_there(path: str) -> bool:
    return os.path.lexists(path)


@both
async def test_41_environment_leak(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)
    every = (
        "import glob, os\nfor path in glob.glob('/proc/*/environ') + glob.glob('/proc/*/cmdline'):\n"
        "    print(open(path, errors='replace').read())"
    )
    root, found = await attacked(kind, "import os\nprint(dict(os.environ))", every, folder=tmp_path)

    assert all(CANARY not in root.read(turn) for turn in (1, 2))
    assert CANARY not in json.dumps(found.to_dict())
    assert holding(CANARY, tmp_path) == []
    if kind == "os":
        assert "PYTHONHASHSEED" in root.read(2), "it looked at something"


@both
async def test_41_fork_bomb(kind: str) -> None:
    bomb = (
        "import os\nif os.uname().nodename != 'jail':\n    raise SystemExit\n"
        "for i in range(100):\n    if os.fork() == 0:\n        os._exit(0)"
    )
    root, _ = await attacked(kind, bomb)

    assert "PermissionError" in root.read(1) if kind == "os" else "ended by an exception" in root.read(1)


@both
async def test_41_stdout_flood(kind: str) -> None:
    async with HostWatch() as host:
        root, _ = await attacked(kind, "while True:\n    print('x' * 100_000)")

    assert "ended because it printed too much" in root.read(1)
    assert host.grown < 50 * 2**20


@both
async def test_41_symlink_in_its_files(kind: str, tmp_path: Path) -> None:
    precious = tmp_path / "precious.txt"
    precious.write_text(CANARY)
    link = f"import os\nos.symlink({str(precious)!r}, '/tmp/planted-by-41')\n"
    root, _ = await attacked(
        kind, f"{link}print(open('/tmp/planted-by-41').read())", "open('/tmp/planted-by-41', 'w').write('mine')"
    )

    assert all("ended by an exception" in root.read(turn) for turn in (1, 2))
    assert CANARY not in root.read(1) and precious.read_text() == CANARY
    assert not is_there("/tmp/planted-by-41")


@both
async def test_41_objects_with_ideas_of_their_own(kind: str) -> None:
    """What is not JSON does not reach a tool, nor the answer: there it is its text."""
    given: list[object] = []

    @tool(side_effects=False)
    def keep(thing: object) -> str:
        """Keep a thing."""
        given.append(thing)
        return "kept"

    evil = (
        "class Evil:\n    def __reduce__(self):\n        return (print, ('unpickled',))\n"
        "    def __repr__(self):\n        return '<evil>'\n"
    )
    root = Root(repl(f"{evil}keep(Evil())"), repl("keep({1: 2})"), repl("keep(float('nan'))"), repl("FINAL([Evil()])"))
    async with RLM(root, environment=kind, custom_tools={"keep": keep}, policy=Policy()) as rlm:
        found = await rlm.acompletion("a context", "a question")

    assert given == []
    assert all("ValueError: it is not JSON" in root.read(turn) for turn in (1, 2, 3))
    assert found.response == "[<evil>]"


def test_41_orders_to_the_terminal(folder: Path) -> None:
    """Neither on the terminal nor on the page is anything but text of what code printed, raised and answered."""
    order = "\\x1b]52;c;AAAA\\x07\\x1b[2J\\u202e"
    cells = [f"print('{order} <script>x</script>')\nraise ValueError('{order}')", f"FINAL('{order} done')"]
    script = {"reply": [{"text": repl(cell)} for cell in cells]}
    (folder / "root.json").write_text(json.dumps(script))
    (folder / "hay.txt").write_text("hay")
    options = ("-m", "scripted:root.json", "--code", "--report", "page.html")
    said = run("rlm", "ask", "--context", "hay.txt", *options, "Well?")

    assert said.exit_code == 0 and "done" in said.stdout
    page = (folder / "page.html").read_text()
    for shown in (said.stdout, said.stderr, page):
        assert not {"\x1b", "\x07", "\u202e"} & set(shown)
    assert "<script" not in page and "&lt;script&gt;" in page
